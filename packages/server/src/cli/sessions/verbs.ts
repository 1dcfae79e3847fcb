// fleetline sessions create, ls, get: one question and one answer each.
import { sessionSchema, sessionsSchema } from '../../gateway/session-schemas.ts'
import { apiOf, queryOf } from '../api.ts'
import type { Call } from '../command.ts'
import { EXIT } from '../output.ts'

export async function create({ flags, options, output }: Call): Promise<number> {
  const { alias = null, title = null, agent = null } = options
  const body = { alias, title, agent }
  output.one(await apiOf(flags).ask({ method: 'POST', path: '/sessions', body, answer: sessionSchema }))
  return EXIT.done
}

export async function list({ flags, options, output }: Call): Promise<number> {
  const path = `/sessions${queryOf(options, ['before', 'limit'])}`
  const { sessions } = await apiOf(flags).ask({ method: 'GET', path, answer: sessionsSchema })
  output.list(['session', 'alias', 'title', 'head', 'updatedAt'], sessions)
  return EXIT.done
}

export async function get({ flags, args, output }: Call): Promise<number> {
  output.one(await apiOf(flags).ask({ method: 'GET', path: pathOf(args), answer: sessionSchema }))
  return EXIT.done
}

function pathOf([session]: Call['args']): string {
  return `/sessions/${encodeURIComponent(session!)}`
}
