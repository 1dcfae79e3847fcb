// Routes for turns: get one, stop the live one.
import { parseId, type StopAck } from '@fleetline/protocol'
import { z } from 'zod'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Sessions } from '../session/sessions.ts'
import type { UsageList } from '../usage/list.ts'
import { openToUsers, tenantOf } from './caller.ts'
import { turnFor } from './seen.ts'
import type { SessionKeys } from './session-key.ts'
import { sessionParams } from './session-schemas.ts'
import { stopAckSchema, stopSchema, turnSchema } from './turn-schemas.ts'

const STALE: StopAck = { stopped: false, seq: null }

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'findTurn' | 'stopTurn'>
  readonly usage: Pick<UsageList, 'ofTurn'>
  readonly cell: number
}

export function turnRoutes(deps: Deps): Route[] {
  return [getRoute(deps), stopRoute(deps)]
}

function getRoute({ sessions, usage, maySee }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/turns/:turn',
    summary: 'Shows a turn: its state, the pod that runs it, how it ended, and the tokens that it has used.',
    access: openToUsers('sessions:read', 'read'),
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

function stopRoute({ keyOf, explainMissing, sessions, cell }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/sessions/:session/stop',
    summary:
      'Stops this turn on whichever pod it runs, if it is still the live one. What the agent has said so far is stored, and nothing after that. A repeated request gets the same response.',
    access: openToUsers('sessions:write', 'stop'),
    params: sessionParams,
    body: stopSchema,
    answers: {
      200: {
        means:
          'Committed, with the seq of what the agent had said. Or `stopped` is false: this turn is not live any more.',
        json: stopAckSchema,
      },
    },
    handle: async ({ principal, params, body }) => {
      const turn = parseId('turn', body.turn)
      if (!turn) throw new Rejected('invalid', 'body.turn: is not the id of a turn')
      const key = await keyOf(principal, params.session)
      if (turn.cell !== cell) return { status: 200, body: STALE }
      const stopped = await sessions.stopTurn({ ...key, turn: turn.uuid, epoch: body.epoch })
      if (stopped.type === 'not-found') throw await explainMissing(key)
      return { status: 200, body: stopped.type === 'stale' ? STALE : { stopped: true, seq: stopped.seq } }
    },
  })
}
