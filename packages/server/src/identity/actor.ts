// Who did something, as the audit log names it:
//
//   name          address   who
//   key <id>      client    a program with an API key
//   user <id>     client    a user with a token; `via` says where the token comes from
//   anyone        client    a caller of this machine without a key, on an insecure pod
//   nobody        client    a caller that was refused before it was known
//   pod           none      the program that has the pod in its process, by a method of `createPod`
//   command       none      a command with access to the database; the row adds the role that it has logged in with
import type { Principal } from './principal.ts'

export type Actor = {
  readonly name: string
  /** `key <id>` minted the token of a user, or `issuer <name>` issued it. Null for others. */
  readonly via: string | null
  /** Of the client. */
  readonly address: string | null
}
/** What is known of a caller, even if it is refused. */
export type Caller = Pick<Principal, 'tenant' | 'key' | 'user'>

export const POD: Actor = { name: 'pod', via: null, address: null }
export const COMMAND: Actor = { name: 'command', via: null, address: null }

/** Without an address, the call comes from the pod's own process. */
export function actorOf(caller: Caller | null, address: string | null): Actor {
  if (!caller) return { name: 'nobody', via: null, address }
  const { key, user } = caller
  const ofKey = key === null ? null : `key ${key}`
  if (user)
    return { name: `user ${user.id}`, via: user.issuer ? `issuer ${user.issuer.name}` : ofKey, address }
  if (ofKey === null && address === null) return POD
  return { name: ofKey ?? 'anyone', via: null, address }
}
