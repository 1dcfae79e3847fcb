// Routes for turns: get one, stop the live one.
import { parseId, type StopAck } from '@fleetline/protocol'
import { z } from 'zod'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Sessions } from '../session/sessions.ts'
import { CALLER_ACCESS, type TenantOf } from './caller.ts'
import { notFound, type SessionKeys } from './session-key.ts'
import { sessionParams } from './session-schemas.ts'
import { stopAckSchema, stopSchema, turnSchema } from './turn-schemas.ts'

const STALE: StopAck = { stopped: false, seq: null }

type Deps = SessionKeys & {
  readonly tenantOf: TenantOf
  readonly sessions: Pick<Sessions, 'findTurn' | 'stopTurn'>
  readonly cell: number
}

export function turnRoutes(deps: Deps): Route[] {
  return [getRoute(deps), stopRoute(deps)]
}

function getRoute({ tenantOf, sessions }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/turns/:turn',
    summary: 'One turn: whether it waits, runs, and on which pod, or how it ended.',
    access: CALLER_ACCESS,
    params: z.object({ turn: z.string() }),
    answers: { 200: { means: 'It is here.', json: turnSchema } },
    handle: async ({ principal, params }) => {
      const turn = await sessions.findTurn(await tenantOf(principal), params.turn)
      if (!turn) throw new Rejected('not_found', 'There is no such turn, or it is not yours.')
      return { status: 200, body: turn }
    },
  })
}

function stopRoute({ keyOf, sessions, cell }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/stop',
    summary:
      'Stops the live turn, wherever it runs, if it is this one: what it has said so far is stored, and nothing more of it. Sent again, the answer is the same.',
    access: CALLER_ACCESS,
    params: sessionParams,
    body: stopSchema,
    answers: {
      200: {
        means: 'Committed, with the seq of what it had said; or, not stopped: another turn is live, or none.',
        json: stopAckSchema,
      },
    },
    handle: async ({ principal, params, body }) => {
      const turn = parseId('turn', body.turn)
      if (!turn) throw new Rejected('invalid', 'body.turn: is no id of a turn')
      const key = await keyOf(principal, params.session)
      if (turn.cell !== cell) return { status: 200, body: STALE }
      const stopped = await sessions.stopTurn({ ...key, turn: turn.uuid, epoch: body.epoch })
      if (stopped.type === 'not-found') throw notFound()
      return { status: 200, body: stopped.type === 'stale' ? STALE : { stopped: true, seq: stopped.seq } }
    },
  })
}
