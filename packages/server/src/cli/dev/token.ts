// Prints a token of a user once the fleet is ready, so that one can try what a browser may do. If that fails, the fleet still runs.
import { tokenSchema } from '../../gateway/token-schemas.ts'
import { ALL_RIGHTS } from '../../identity/scopes.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Output } from '../output.ts'
import { eventOf, type OnEvent } from './events.ts'
import { DEV_USER } from './person.ts'
import { askerOf } from './talk.ts'

type Deps = {
  readonly origin: () => string
  readonly output: Output
  readonly clock: Clock
  readonly onEvent: OnEvent
}

export function createDevToken({ origin, output, clock, onEvent }: Deps): Service {
  const show = async () => {
    const wanted = { user: DEV_USER, rights: ALL_RIGHTS }
    const { token, user, expiresAt } = await askerOf(origin(), clock)('POST', '/tokens', tokenSchema, wanted)
    if (output.isJson) output.one({ token, user, expiresAt })
    else output.line(`token of ${user}, until ${expiresAt.slice(11, 19)} UTC: ${token}`)
  }
  const onFailed = ({ message: reason }: Error) =>
    onEvent(eventOf('fleet', 'no token was minted', { now: clock.now(), level: 'warn', reason }))
  return { name: 'token', start: () => show().catch(onFailed), stop: async () => undefined }
}
