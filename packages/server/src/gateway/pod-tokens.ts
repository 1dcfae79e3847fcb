// Tokens of users for a program that has the pod in its own process.
import type { Right } from '../identity/scopes.ts'
import type { RouteCaller } from './in-process.ts'

export type PodTokens = {
  /** Mints a token. By default it is good for all sessions of which the user is a member, to read, send
   *  and stop, for 10 minutes. */
  mint(
    wanted: WantedToken,
  ): Promise<{ readonly token: string; readonly user: string; readonly expiresAt: string }>
  /** Revokes all tokens that the user has now. */
  revoke(user: string): Promise<{ readonly user: string; readonly revokedAt: string }>
}
type WantedToken = {
  readonly user: string
  /** Ids or aliases. */
  readonly sessions?: readonly string[]
  readonly rights?: readonly Right[]
  /** How long it is valid, up to 600. */
  readonly seconds?: number
}

export function createPodTokens(call: RouteCaller): PodTokens {
  return {
    mint: (wanted) => call('POST /v1/tokens', { body: wanted }),
    revoke: (user) => call('POST /v1/tokens/revoke', { body: { user } }),
  }
}
