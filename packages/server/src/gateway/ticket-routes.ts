// The route for tickets of users.
import { route, type Route } from '../door/route.ts'
import { TICKET_SECONDS, type Tickets } from '../identity/tickets.ts'
import { openToUsers } from './caller.ts'
import { ticketSchema } from './token-schemas.ts'

type Deps = { readonly tickets: Pick<Tickets, 'mint'> }

export function ticketRoutes({ tickets }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/tickets',
      summary: `Mints a ticket for the user of the token that is sent. A ticket opens one socket in place of the token, with the same rights and sessions. It is valid once, for ${TICKET_SECONDS} seconds and never longer than the token, so it may stand in a URL. A caller with an API key gets no ticket.`,
      access: openToUsers('sessions:read', 'read'),
      answers: { 201: { means: 'Minted. Only a digest of the ticket is stored.', json: ticketSchema } },
      handle: async ({ principal }) => {
        const { ticket, expiresAt } = await tickets.mint(principal)
        return { status: 201, body: { ticket, expiresAt: expiresAt.toISOString() } }
      },
    }),
  ]
}
