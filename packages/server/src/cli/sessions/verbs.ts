// fleetline sessions create, ls, get, send: one question and one answer each.
import { Retry } from '../../errors.ts'
import { ackSchema, sessionSchema, sessionsSchema } from '../../gateway/session-schemas.ts'
import { systemRandom } from '../../lib/random.ts'
import { apiOf, queryOf } from '../api.ts'
import type { Call } from '../command.ts'
import { seqOf } from '../options.ts'
import { EXIT } from '../output.ts'

export async function create({ flags, options, output }: Call): Promise<number> {
  const { title = null, agent = null } = options
  const asked = { method: 'POST', path: '/sessions', body: { title, agent }, answer: sessionSchema } as const
  output.one(await apiOf(flags).ask(asked))
  return EXIT.done
}

export async function list({ flags, options, output }: Call): Promise<number> {
  const path = `/sessions${queryOf(options, ['before', 'limit'])}`
  const { sessions } = await apiOf(flags).ask({ method: 'GET', path, answer: sessionsSchema })
  output.list(['session', 'title', 'head', 'updatedAt'], sessions)
  return EXIT.done
}

export async function get({ flags, args, output }: Call): Promise<number> {
  output.one(await apiOf(flags).ask({ method: 'GET', path: pathOf(args), answer: sessionSchema }))
  return EXIT.done
}

export async function send({ flags, args, options, output }: Call): Promise<number> {
  const { author, id = newId(), ifHead, reply } = options
  const body = {
    message: { id, parts: [{ type: 'text', text: args[1] }] },
    author,
    reply,
    ...(ifHead === undefined ? {} : { ifHead: seqOf('--if-head', ifHead) }),
  }
  try {
    const path = `${pathOf(args)}/messages`
    output.one(await apiOf(flags).ask({ method: 'POST', path, body, answer: ackSchema }))
  } catch (error) {
    if (!(error instanceof Retry)) throw error
    const next = `Whether it was stored is not known: sent again with --id ${String(id)}, it is there once.`
    throw new Retry(error.code, `${error.message} ${next}`, { cause: error })
  }
  return EXIT.done
}

function pathOf([session]: Call['args']): string {
  return `/sessions/${encodeURIComponent(session!)}`
}

function newId(): string {
  return Buffer.from(systemRandom().bytes(16)).toString('hex')
}
