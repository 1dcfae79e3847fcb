// Calls a pod over HTTP, as an application does.
import { connect } from 'node:net'
import { formatId, type Session } from '@fleetline/protocol'
import type { Append, Appended } from '../../src/session/items.ts'

type Answered = { readonly status: number; readonly body: Record<string, unknown> }

export async function call(method: string, url: string, body?: unknown, token?: string): Promise<Answered> {
  const headers = {
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  }
  const answer = await fetch(url, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
}

export async function makeSession(gateway: string, body: object = {}): Promise<Session> {
  const answer = await call('POST', `${gateway}/v1/sessions`, body)
  if (answer.status !== 201) throw new Error(`No session: ${JSON.stringify(answer)}`)
  return answer.body as Session
}

/** Sends this text, which need not be HTTP. Resolves to what comes back until the pod closes the connection. */
export async function sayRaw(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(text)
  let heard = ''
  for await (const chunk of socket.setEncoding('utf8')) heard += String(chunk)
  return heard
}

/** Replaces a write path in this process: sends each message over HTTP. Throws if the answer leaves the outcome open. */
export function sendOver(gateway: string) {
  return async ({ session, draft }: Append): Promise<Appended> => {
    const { parts } = JSON.parse(draft.body) as { parts: unknown }
    const url = `${gateway}/v1/sessions/${formatId('session', 0, session)}/messages`
    const { status, body } = await call('POST', url, { message: { id: draft.id, role: draft.role, parts } })
    if (status === 404) return { type: 'not-found' }
    if (status !== 200) throw new Error(`Answered ${status}: ${JSON.stringify(body)}`)
    return { type: 'stored', seq: body['seq'] as number, deduped: body['deduped'] as boolean }
  }
}
