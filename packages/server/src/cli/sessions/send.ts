// fleetline sessions send: stores a message and prints its reply while it arrives, through whichever pods answer. stdout gets
// only the words; everything else is a note. With --json, stdout gets the ack and the stored reply, one line each. Ctrl-C
// stops the reply. Exit 0 means that the message is stored and, if a reply was waited for, that its turn is done. For a message
// that was sent before, it means that the reply is in the log.
import { ERROR_CODES, PAGE_LIMITS, type Item, type Page } from '@fleetline/protocol'
import type { z } from 'zod'
import { Abort, Bug, Retry } from '../../errors.ts'
import { ackSchema, pageSchema, sessionSchema } from '../../gateway/session-schemas.ts'
import { turnSchema } from '../../gateway/turn-schemas.ts'
import { systemClock, type Clock } from '../../lib/clock.ts'
import { systemRandom } from '../../lib/random.ts'
import { apiOf, type Api } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { seqOf } from '../options.ts'
import { EXIT } from '../output.ts'
import { followFrames } from '../frames.ts'
import { LEFT, onInterrupt } from './interrupt.ts'
import { createReply, type ReplyPrinter, type ReplyEnd } from './reply.ts'

type Ack = z.infer<typeof ackSchema>
type Asking = Pick<CommandCall, 'args' | 'options' | 'output'> & {
  readonly api: Api
  readonly clock: Clock
  /** The session's path, relative to /v1. */
  readonly path: string
}

/** After Ctrl-C: `interrupted` if the reply was stopped, `left` if it had not begun. */
type End =
  | ReplyEnd
  | { readonly type: 'interrupted'; readonly item: Item | undefined }
  | { readonly type: 'left' }

const UNTOLD = { type: 'untold' } as const
const SILENT = { text: () => undefined, note: () => undefined }
const GOES_ON = 'The message is stored, and the conversation goes on with the next one.'
const ASK_AGENT = 'If the agent is behind a URL, fleetline agents check URL says what to fix.'

export async function send({ flags, args, options, output }: CommandCall): Promise<number> {
  const clock = systemClock()
  const api = apiOf({ flags, output })
  const asking = { api, clock, path: `/sessions/${encodeURIComponent(args[0]!)}`, args, options, output }
  const ack = await store(asking)
  const isReplyWanted = options['wait'] !== false && options['reply'] !== false
  if (!isReplyWanted || (ack.epoch === undefined && !(await isOver(asking, ack)))) {
    output.one(ack)
    return EXIT.done
  }
  if (output.isJson) output.one(ack)
  else output.note(`Stored at seq ${ack.seq}.`)
  const reply = createReply(ack.seq, output.isJson ? SILENT : output)
  const end = ack.epoch === undefined ? UNTOLD : await follow(asking, ack, reply)
  const item = end.type === 'untold' ? await findReply(asking, ack) : undefined
  return tell(asking, item ? { type: item.status === 'stopped' ? 'stopped' : 'answered', item } : end, reply)
}

/** The message was sent before, in a session with an agent: its reply, if any, is in the log. */
async function isOver({ api, path }: Asking, { deduped }: Ack): Promise<boolean> {
  return deduped && (await api.ask({ method: 'GET', path, answer: sessionSchema })).agent !== null
}

async function store({ api, path, args, options }: Asking): Promise<Ack> {
  const { author, id = newId(), ifHead, reply } = options
  const body = {
    message: { id, parts: [{ type: 'text', text: args[1] }] },
    author,
    reply,
    ...(ifHead === undefined ? {} : { ifHead: seqOf('--if-head', ifHead) }),
  }
  try {
    return await api.ask({ method: 'POST', path: `${path}/messages`, body, answer: ackSchema })
  } catch (error) {
    if (!(error instanceof Retry) || ERROR_CODES[error.code].outcome === 'refused') throw error
    const next = `It is not known whether the message was stored. Send it again with --id ${String(id)}; it is stored only once.`
    throw new Retry(error.code, `${error.message.replace(/\.?$/, '.')} ${next}`, { cause: error })
  }
}

async function follow({ api, clock, path, output }: Asking, ack: Ack, reply: ReplyPrinter): Promise<End> {
  const onLost = () => output.note('The stream ended or was lost: coming back, through any pod.')
  const deps = { ...api, clock, random: systemRandom(), onLost }
  const from = { path: `${path}/events?after=${ack.seq}&epoch=${ack.epoch}`, isKnown: true }
  const waiting = { path, reply, firstTurn: ack.turn }
  const interrupt = onInterrupt({ ...deps, note: (text) => output.note(text) }, waiting)
  try {
    for await (const frame of followFrames(deps, from, interrupt.leaving)) {
      const end = reply.take(frame)
      if (end) return end.type === 'stopped' && interrupt.isAsked() ? { ...end, type: 'interrupted' } : end
    }
    if (interrupt.leaving.reason === LEFT) return { type: 'left' }
    interrupt.leaving.throwIfAborted()
    throw new Bug('The frames of a session came to an end')
  } finally {
    interrupt.forget()
  }
}

/** Finds the reply in the log. The first reply after the message may answer only a later message. */
async function findReply({ api, path }: Asking, { seq }: Ack): Promise<Item | undefined> {
  for (let [after, head] = [seq, seq + 1]; after < head;) {
    const query = `after=${after}&limit=${PAGE_LIMITS.items}`
    const asked = { method: 'GET', path: `${path}/messages?${query}`, answer: pageSchema } as const
    const page = (await api.ask(asked)) as unknown as Page // the server made its ids, so they fit the type
    const item = page.items.find(({ answers = 0 }) => answers >= seq)
    if (item) {
      const turn = await api.ask({ method: 'GET', path: `/turns/${item.turn}`, answer: turnSchema })
      return turn.answers.from <= seq ? item : undefined
    }
    ;[after, head] = [page.items.at(-1)?.seq ?? page.head, page.head]
  }
  return undefined
}

function tell({ output }: Asking, end: End, reply: ReplyPrinter): number {
  switch (end.type) {
    case 'answered': {
      const { status, turn } = end.item
      reply.finish(end.item)
      if (output.isJson) output.one(end.item)
      if (status === 'failed') throw new Abort('internal', `${turn} failed. ${keptOf(end.item)} ${GOES_ON}`)
      return EXIT.done
    }
    case 'interrupted':
    case 'stopped': {
      if (end.item) reply.finish(end.item)
      else reply.closeLine()
      if (end.item && output.isJson) output.one(end.item)
      const kept = keptOf(end.item)
      if (end.type === 'stopped') throw new Abort('internal', `The reply was stopped. ${kept} ${GOES_ON}`)
      output.note(`Stopped. ${kept}`)
      return EXIT.interrupted
    }
    case 'left':
      output.note('Not waiting any longer. The message is stored; its reply will be in the log.')
      return EXIT.interrupted
    case 'silent':
      output.note('The agent did not reply.')
      return EXIT.done
    case 'failed': {
      const { id, error } = end.turn
      if (end.item) reply.finish(end.item)
      else reply.closeLine()
      if (end.item && output.isJson) output.one(end.item)
      const more = error?.code.startsWith('agent_') || error?.code === 'incomplete' ? ` ${ASK_AGENT}` : ''
      throw new Abort('internal', `${id} failed: ${error?.message}. ${keptOf(end.item)} ${GOES_ON}${more}`)
    }
    case 'untold':
      throw new Abort(
        'internal',
        `This message has no reply: its turn failed or was stopped, the agent had no answer, or no reply was requested. ${GOES_ON}`,
      )
  }
}

function keptOf(item: Item | undefined): string {
  return item ? `The words so far are stored at seq ${item.seq}.` : 'Nothing of the reply is stored.'
}

function newId(): string {
  return Buffer.from(systemRandom().bytes(16)).toString('hex')
}
