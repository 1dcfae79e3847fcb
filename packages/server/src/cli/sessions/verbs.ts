// fleetline sessions create, ls, get, set, archive, unarchive, erase, read, stop, regenerate, edit: one or two requests each.
import { parseId } from '@fleetline/protocol'
import { readAckSchema } from '../../gateway/inbox-schemas.ts'
import { erasureSchema } from '../../gateway/erasure-schemas.ts'
import {
  ackSchema,
  regenerateAckSchema,
  sessionSchema,
  sessionsSchema,
} from '../../gateway/session-schemas.ts'
import { stopAckSchema } from '../../gateway/turn-schemas.ts'
import { Rejected, Retry } from '../../errors.ts'
import { apiOf, queryOf, type Api } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { printReceipt, requireYesToErase } from '../erasures/receipt.ts'
import { seqOf } from '../options.ts'
import { EXIT } from '../output.ts'

export async function create({ flags, options, output }: CommandCall): Promise<number> {
  const { alias = null, title = null, agent = null } = options
  const body = { alias, title, agent, metadata: metadataOf(options['metadata']) ?? null }
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

/** An option that was given as `--no-…` is false, and removes the value. */
export async function set({ flags, args, options, output }: CommandCall): Promise<number> {
  const { title, metadata } = options
  if (title === '') throw new Rejected('invalid', '--title is empty. To remove the title, use --no-title')
  const body = {
    title: title === false ? null : title,
    metadata: metadata === false ? null : metadataOf(metadata),
  }
  if (body.title === undefined && body.metadata === undefined)
    throw new Rejected('invalid', 'There is nothing to change: use --title or --metadata')
  return change({ flags, args, output }, body)
}

export function archive(call: CommandCall): Promise<number> {
  return change(call, { archived: true })
}

export function unarchive(call: CommandCall): Promise<number> {
  return change(call, { archived: false })
}

async function change(
  { flags, args, output }: Pick<CommandCall, 'flags' | 'args' | 'output'>,
  body: object,
): Promise<number> {
  const path = pathOf(args)
  output.one(await apiOf({ flags, output }).ask({ method: 'PATCH', path, body, answer: sessionSchema }))
  return EXIT.done
}

/** The whole session, or one message of it. */
export async function erase({ flags, args, options, output }: CommandCall): Promise<number> {
  const message = options['message']
  const isMessage = typeof message === 'string'
  const api = apiOf({ flags, output })
  const session = await idOf(api, args[0]!)
  const name = `session ${args[0] === session ? session : `${args[0]} (${session})`}`
  requireYesToErase(options, isMessage ? `message ${message} of ${name}` : `${name} with all its messages`)
  const path = `${pathOf([session])}${isMessage ? `/messages/${encodeURIComponent(message)}` : ''}`
  const receipt = await api.ask({ method: 'DELETE', path, answer: erasureSchema }).catch((error: unknown) => {
    if (!(error instanceof Retry)) throw error
    throw new Retry(error.code, `${error.message} ${adviceFor(session)}`, { cause: error })
  })
  return printReceipt(output, receipt)
}

/** The id of a session. If the answer of an erasure is lost, its alias may name another session by then. A key that may not read sessions
 *  keeps the alias. */
async function idOf(api: Api, idOrAlias: string): Promise<string> {
  if (parseId('session', idOrAlias)) return idOrAlias
  try {
    return (await api.ask({ method: 'GET', path: pathOf([idOrAlias]), answer: sessionSchema })).session
  } catch (error) {
    if (error instanceof Rejected && error.code === 'forbidden') return idOrAlias
    throw error
  }
}

function adviceFor(session: string): string {
  return parseId('session', session)
    ? `To repeat the erasure, use the id of the session: ${session}`
    : `Before you repeat the erasure, make sure that the alias ${session} still names this session`
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

export async function regenerate({ flags, args, options, output }: CommandCall): Promise<number> {
  const api = apiOf({ flags, output })
  const { epoch } = await api.ask({ method: 'GET', path: pathOf(args), answer: sessionSchema })
  const body = { epoch, message: options['message'] }
  const path = `${pathOf(args)}/regenerate`
  const ack = await api.ask({ method: 'POST', path, body, answer: regenerateAckSchema })
  output.one(ack)
  output.note(`${ack.turn} writes the reply. To read it: fleetline sessions tail ${args[0]}`)
  return EXIT.done
}

export async function edit({ flags, args, options, output }: CommandCall): Promise<number> {
  const api = apiOf({ flags, output })
  const { epoch } = await api.ask({ method: 'GET', path: pathOf(args), answer: sessionSchema })
  const { id, author } = options
  const body = { epoch, id, author, parts: [{ type: 'text', text: args[2] }] }
  const path = `${pathOf(args)}/messages/${encodeURIComponent(args[1]!)}`
  output.one(await api.ask({ method: 'PUT', path, body, answer: ackSchema }))
  return EXIT.done
}

function metadataOf(text: CommandCall['options'][string]): unknown {
  if (text === undefined) return undefined
  try {
    return JSON.parse(String(text))
  } catch {
    throw new Rejected('invalid', `--metadata is not valid JSON. Example: --metadata '{"project":"p1"}'`)
  }
}

function pathOf([session]: CommandCall['args']): string {
  return `/sessions/${encodeURIComponent(session!)}`
}
