// Tickets open a socket where a client cannot send the header with its token. A ticket may stand in a URL, and URLs are logged, so it
// is valid once and for 30 seconds. Guarantees:
//   S8  a ticket gives what its token gives when the ticket is used: the same user, rights and sessions, and nothing once the token has
//       ended or was revoked. `callers.ts` checks whether it has
//   If several requests use one ticket at the same time, on any pods, only the one that deletes its row is let in
// Only the digest of a ticket is stored. Minting writes no row of the audit log, because the token's row names the user already.
import { z } from 'zod'
import { Rejected } from '../errors.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import { digestOf } from './key-text.ts'
import type { Principal, TokenUser } from './principal.ts'
import { ALL_RIGHTS } from './scopes.ts'

export type Tickets = {
  /** Throws if the caller is not a user. */
  mint(caller: Principal | null): Promise<{ readonly ticket: string; readonly expiresAt: Date }>
  /** Undefined if there is no such ticket, or it was used or has expired. Does not check whether its token is still valid. */
  redeem(ticket: string): Promise<Principal | undefined>
}
type Deps = { readonly database: Transactions; readonly random: Random }
type Row = { readonly tenant: number; readonly caller: unknown }

export const TICKET_SECONDS = 30
const BYTES = 32
const TICKET: RegExp = /^[\w-]{43}$/
const NO_USER =
  'A ticket is for a user, and this request has none. Send the token of the user: authorization: Bearer TOKEN. A program with an API key sends the key instead of a ticket'

const MINT = `
  insert into fleetline.tickets (expires_at, tenant, digest, caller)
  values (least(now() + interval '${TICKET_SECONDS} seconds', to_timestamp($1::float8 / 1000)), $2, $3, $4) returning expires_at as "expiresAt"`
// Requests at the same time wait for the first one's row lock, and then find no row.
const REDEEM =
  'delete from fleetline.tickets where digest = $1 and expires_at > clock_timestamp() returning tenant, caller'

const callerSchema = z.object({
  key: z.string().nullable(),
  user: z.object({
    id: z.string(),
    rights: z.array(z.string()), // a later release may know more rights
    sessions: z.array(z.string()).nullable(),
    issuedMs: z.number(),
    endMs: z.number(),
    issuer: z.object({ id: z.number(), name: z.string() }).optional(),
  }),
})

/** Whether the text has the form of a ticket. */
export function isTicket(text: string): boolean {
  return TICKET.test(text)
}

export function createTickets({ database, random }: Deps): Tickets {
  return {
    mint: async (caller) => {
      if (!caller?.user || caller.tenant === null) throw new Rejected('invalid', NO_USER)
      const ticket = Buffer.from(random.bytes(BYTES)).toString('base64url')
      const { tenant, key, user } = caller
      const values = [user.endMs, tenant, digestOf(ticket), storedOf(key, user)]
      const outcome = await database.transaction((query) => query<{ expiresAt: Date }>(MINT, values))
      const [row] = valueOf(outcome, 'Whether the ticket was stored is not known: get another one')
      return { ticket, expiresAt: row!.expiresAt }
    },
    redeem: async (ticket) => {
      const outcome = await database.transaction((query) => query<Row>(REDEEM, [digestOf(ticket)]))
      const [row] = valueOf(outcome, 'Whether the ticket was used is not known: get another one')
      return row && principalOf(row)
    },
  }
}

function storedOf(key: string | null, { rights, sessions, ...user }: TokenUser): string {
  const lists = { rights: [...rights], sessions: sessions ? [...sessions] : null }
  return JSON.stringify({ key, user: { ...user, ...lists } } satisfies z.infer<typeof callerSchema>)
}

function principalOf({ tenant, caller }: Row): Principal {
  const { key, user } = callerSchema.parse(caller)
  const { rights, sessions, issuer, ...rest } = user
  const known = new Set(ALL_RIGHTS.filter((right) => rights.includes(right)))
  const named = sessions ? new Set(sessions) : undefined
  return {
    tenant,
    scopes: new Set(),
    key,
    user: { ...rest, rights: known, sessions: named, ...(issuer && { issuer }) },
  }
}
