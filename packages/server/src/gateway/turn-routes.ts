// Routes for turns: get one, stop the live one.
import { parseId } from '@fleetline/protocol'
import { z } from 'zod'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Sessions } from '../session/sessions.ts'
import type { UsageList } from '../usage/list.ts'
import { READ, STOP, tenantOf } from './caller.ts'
import type { Operations } from './operations.ts'
import { turnFor } from './seen.ts'
import type { SessionKeys } from './session-key.ts'
import { sessionParams } from './session-schemas.ts'
import { stopAckSchema, stopSchema, turnSchema } from './turn-schemas.ts'

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'findTurn'>
  readonly usage: Pick<UsageList, 'ofTurn'>
  readonly operations: Pick<Operations, 'stop'>
}

export function turnRoutes(deps: Deps): Route[] {
  return [getRoute(deps), stopRoute(deps)]
}

function getRoute({ sessions, usage, maySee }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/turns/:turn',
    summary: 'Shows a turn: its state, the pod that runs it, how it ended, and the tokens that it has used.',
    access: READ,
    params: z.object({ turn: z.string() }),
    answers: { 200: { means: 'The turn.', json: turnSchema } },
    handle: async ({ principal, params }) => {
      const tenant = tenantOf(principal)
      const turn = await sessions.findTurn(tenant, params.turn)
      const session = turn && parseId('session', turn.session)?.uuid
      const id = turn && parseId('turn', turn.id)?.uuid
      if (!id || !session || !(await maySee(principal, { tenant, session })))
        throw new Rejected('not_found', 'There is no such turn, or it is not yours.')
      if (principal?.user) return { status: 200, body: turnFor(principal, turn) }
      return { status: 200, body: { ...turn, usage: await usage.ofTurn(tenant, id) } }
    },
  })
}

function stopRoute({ operations }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/stop',
    summary:
      'Stops this turn on whichever pod it runs, if it is still the live one. What the agent has said so far is stored, and nothing after that. A repeated request gets the same response.',
    access: STOP,
    params: sessionParams,
    body: stopSchema,
    answers: {
      200: {
        means:
          'Committed, with the seq of what the agent had said. Or `stopped` is false: this turn is not live any more.',
        json: stopAckSchema,
      },
    },
    handle: async ({ principal, params, body }) => ({
      status: 200,
      body: await operations.stop({ principal, part: 'body', session: params.session }, body),
    }),
  })
}
