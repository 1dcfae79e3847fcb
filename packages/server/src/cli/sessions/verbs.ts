// fleetline sessions create, ls, get, stop: one or two requests each.
import { readAckSchema } from '../../gateway/inbox-schemas.ts'
import { sessionSchema, sessionsSchema } from '../../gateway/session-schemas.ts'
import { stopAckSchema } from '../../gateway/turn-schemas.ts'
import { apiOf, queryOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { seqOf } from '../options.ts'
import { EXIT } from '../output.ts'

export async function create({ flags, options, output }: CommandCall): Promise<number> {
  const { alias = null, title = null, agent = null } = options
  const body = { alias, title, agent }
  output.one(
    await apiOf({ flags, output }).ask({ method: 'POST', path: '/sessions', body, answer: sessionSchema }),
  )
  return EXIT.done
}

export async function list({ flags, options, output }: CommandCall): Promise<number> {
  const path = `/sessions${queryOf(options, ['before', 'limit'])}`
  const { sessions } = await apiOf({ flags, output }).ask({ method: 'GET', path, answer: sessionsSchema })
  output.list(['session', 'alias', 'title', 'head', 'updatedAt'], sessions)
  return EXIT.done
}

export async function get({ flags, args, output }: CommandCall): Promise<number> {
  output.one(await apiOf({ flags, output }).ask({ method: 'GET', path: pathOf(args), answer: sessionSchema }))
  return EXIT.done
}

/** Without a seq, all that is stored now counts as read. */
export async function read({ flags, args, options, output }: CommandCall): Promise<number> {
  const api = apiOf({ flags, output })
  const head = async () => (await api.ask({ method: 'GET', path: pathOf(args), answer: sessionSchema })).head
  const seq = options['seq'] === undefined ? await head() : seqOf('--seq', options['seq'])
  const body = { seq, user: options['user'] }
  output.one(await api.ask({ method: 'POST', path: `${pathOf(args)}/read`, body, answer: readAckSchema }))
  return EXIT.done
}

/** Stops the turn that is live now, and no later one. */
export async function stop({ flags, args, output }: CommandCall): Promise<number> {
  const api = apiOf({ flags, output })
  const { turn, epoch } = await api.ask({ method: 'GET', path: pathOf(args), answer: sessionSchema })
  const asked = {
    method: 'POST',
    path: `${pathOf(args)}/stop`,
    body: { turn, epoch },
    answer: stopAckSchema,
  } as const
  const ack = turn === null ? { stopped: false, seq: null } : await api.ask(asked)
  output.one({ ...ack, turn })
  if (!ack.stopped) output.note('There was nothing to stop: no turn was live, or it had ended by itself.')
  return EXIT.done
}

function pathOf([session]: CommandCall['args']): string {
  return `/sessions/${encodeURIComponent(session!)}`
}
