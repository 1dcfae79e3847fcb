// Requests about a session: over the socket if it can carry them now, otherwise over HTTP.
import type { Http } from './http.ts'
import type { Link } from './link.ts'
import type { Command } from './socket.ts'

type Deps = { readonly link: Link; readonly http: Pick<Http, 'post'> }
/** `path`: the last part of the HTTP route, if it differs from the name of the command. */
export type Request = {
  readonly type: 'send' | 'stop' | 'read'
  readonly path?: string
  readonly body: object
}

export function ask<T>(
  { link, http }: Deps,
  session: string,
  { type, path = type, body }: Request,
  signal: AbortSignal,
): Promise<T> {
  const command = { type, session, ...body } as Command
  return link.request<T>(command, signal) ?? http.post<T>(`${pathOf(session)}/${path}`, body, signal)
}

export function pathOf(session: string): string {
  return `/sessions/${encodeURIComponent(session)}`
}
