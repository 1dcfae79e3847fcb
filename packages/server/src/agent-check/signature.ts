// Requests that Fleetline has not sent like this. An agent that answers one of them answers anybody who finds its URL.
import type { Dispatcher } from 'undici'
import { newSecret } from '../agent/signature.ts'
import type { Forgery } from './probe.ts'
import { failed, ok, warning, type Verdict } from './finding.ts'
import type { Visit } from './visit.ts'

const OLD_MS = 600_000 // twice what Standard Webhooks tolerates
const VERIFY =
  'Verify every request before anything else: with verify of fleetline/agent, or with a library of Standard Webhooks, over the body as it came, with a timestamp of at most five minutes ago'

export async function checkSignature({ probe, calls, words, random }: Visit): Promise<Verdict> {
  const forgeries: readonly (readonly [what: string, forgery: Forgery])[] = [
    ['an unsigned request', { change: withoutSignature }],
    ['a request that was signed with another secret', { secret: newSecret(random) }],
    ['a request whose body was changed after it was signed', { change: withOtherBody }],
    ['a request that was signed ten minutes ago', { ageMs: OLD_MS }],
  ]
  const [accepted, unclear]: [string[], string[]] = [[], []]
  for (const [what, forgery] of forgeries) {
    const status = await probe.forge(calls.ofTurn([calls.said(words.greeting)]), forgery)
    if (typeof status !== 'number') unclear.push(`${what} (${status.message})`)
    else if (status < 300) accepted.push(`${what} (status ${status})`)
    else if (status < 400 || status >= 500 || status === 429) unclear.push(`${what} (status ${status})`)
  }
  if (accepted.length > 0)
    return failed({ found: `The agent answered ${accepted.join(', ')}`, remedy: VERIFY })
  if (unclear.length > 0)
    return warning(
      `The agent did not reject with a status of 400 to 499: ${unclear.join(', ')}`,
      'Answer requests that Fleetline did not sign with status 401',
    )
  return ok(`All ${forgeries.length} requests that Fleetline would not send were rejected`)
}

function withoutSignature(request: Dispatcher.RequestOptions): Dispatcher.RequestOptions {
  const headers = Object.entries(request.headers as Record<string, string>)
  return {
    ...request,
    headers: Object.fromEntries(headers.filter(([name]) => !name.startsWith('webhook-'))),
  }
}

/** It is still valid JSON, and says more than what was signed. */
function withOtherBody(request: Dispatcher.RequestOptions): Dispatcher.RequestOptions {
  const text = (request.body as Buffer).toString('utf8')
  return { ...request, body: Buffer.from(text.replace('{', '{"changed":true,')) }
}
