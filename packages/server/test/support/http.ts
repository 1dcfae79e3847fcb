// An application's calls to a pod.
import type { Session } from '@fleetline/protocol'

export type Answered = { readonly status: number; readonly body: Record<string, unknown> }

export async function call(method: string, url: string, body?: unknown): Promise<Answered> {
  const answer = await fetch(url, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
}

export async function makeSession(gateway: string, body: object = {}): Promise<Session> {
  const answer = await call('POST', `${gateway}/v1/sessions`, body)
  if (answer.status !== 201) throw new Error(`No session: ${JSON.stringify(answer)}`)
  return answer.body as Session
}
