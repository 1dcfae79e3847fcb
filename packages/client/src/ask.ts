// Requests about a session: over the socket if it can carry them now, otherwise over HTTP.
import type { Http } from './http.ts'
import type { Link } from './link.ts'
import type { Command } from './socket.ts'

type Deps = { readonly link: Link; readonly http: Pick<Http, 'send'> }
/** `method` and `path`: of the HTTP route, if they differ from POST and the name of the command. */
export type Request = {
  readonly type: 'send' | 'stop' | 'read' | 'regenerate' | 'edit'
  readonly method?: string
  readonly path?: string
  readonly body: object
}

export function ask<T>(
  { link, http }: Deps,
  session: string,
  { type, method = 'POST', path = type, body }: Request,
  signal: AbortSignal,
): Promise<T> {
  const command = { type, session, ...body } as Command
  return link.request<T>(command, signal) ?? http.send<T>(method, `${pathOf(session)}/${path}`, body, signal)
}

export function pathOf(session: string): string {
  return `/sessions/${encodeURIComponent(session)}`
}
