// Calls a fleet over HTTP for a command, as any application does. A refusal is thrown as the same error that the pod threw,
// so its text and exit code are the same. A broken-off answer or a failing proxy says nothing about what was done: both are
// thrown as a `Retry`.
import { ERROR_CODES, PAGE_LIMITS, SESSION_ALIAS } from '@fleetline/protocol'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import type { z } from 'zod'
import { flagOf, loadConfig } from '../config.ts'
import { refusalSchema } from '../door/refusal.ts'
import { Abort, Rejected, Retry } from '../errors.ts'
import { SETTINGS } from '../settings.ts'
import { systemClock, within, type Clock } from '../lib/clock.ts'
import { isLoopbackHost } from '../lib/loopback.ts'
import type { CommandCall, CommandOptions } from './command.ts'
import type { Output } from './output.ts'

export type Api = {
  /** Returns the validated body of the answer. */
  readonly ask: <T>(request: Asked<T>) => Promise<T>
  /** Resolves when the stream is open. Yields the events after the one with `lastId`, until the stream ends or is lost. */
  readonly openEvents: (
    path: string,
    lastId: string | undefined,
    signal: AbortSignal,
  ) => Promise<AsyncIterable<EventSourceMessage>>
  /** Yields the lines of an answer. */
  readonly lines: (path: string) => AsyncIterable<string>
}

type Asked<T> = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Relative to /v1. */
  readonly path: string
  readonly body?: unknown
  readonly signal?: AbortSignal
  readonly answer: z.ZodType<T>
}

const SILENCE_MS = 60_000 // a pod sends something every 20 s
const SILENT = new Retry('unavailable', 'Nothing was heard for a minute')
const SET_A_KEY = `Set ${SETTINGS.apiKey.env}, or name a file with a key: ${flagOf('apiKey')}. fleetline keys create prints one (for the operator's port: with --operator).`
const EVENT_LENGTH = 4 * PAGE_LIMITS.bytes // more than a page with all its escapes and names

type Calling = {
  /** The flag that names the URL. */
  readonly flag?: string
  /** Sent with every request; empty for none. */
  readonly apiKey?: string
}

export function createApi(
  url: string,
  clock: Clock,
  { flag = flagOf('apiUrl'), apiKey = '' }: Calling = {},
): Api {
  const authorization: Record<string, string> = apiKey === '' ? {} : { authorization: `Bearer ${apiKey}` }
  const reach = async (path: string, init: RequestInit): Promise<Response> => {
    refuseDots(path)
    const headers = { ...init.headers, ...authorization }
    const answer = await fetch(new URL(`/v1${path}`, url), { ...init, headers }).catch((cause: unknown) => {
      init.signal?.throwIfAborted()
      throw new Retry(
        'unavailable',
        `There is no answer from ${url}: is a fleet running there? Use ${flag} to name another.`,
        {
          cause,
        },
      )
    })
    if (!answer.ok) throw await failureOf(answer, `${init.method ?? 'GET'} /v1${path}`)
    return answer
  }
  return {
    ask: async ({ method, path, body, signal = null, answer: schema }) => {
      const headers = { 'content-type': 'application/json' }
      const sent = body === undefined ? {} : { body: JSON.stringify(body), headers }
      const answer = await reach(path, { method, signal, ...sent })
      const parsed = schema.safeParse(await jsonOf(answer))
      if (parsed.success) return parsed.data
      throw stranger(url)
    },
    openEvents: async (path, lastId, signal) => {
      const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId }
      const { body } = await reach(path, { headers, signal })
      if (!body) throw stranger(url)
      return eventsOf(body, clock)
    },
    lines: async function* (path) {
      const { body } = await reach(path, {})
      if (!body) throw stranger(url)
      yield* linesOf(body, clock)
    },
  }
}

/** For the fleet that a setting names. */
export function apiOf({ flags, output }: ForCommand, key: 'apiUrl' | 'operatorUrl' = 'apiUrl'): Api {
  const { [key]: url, apiKey } = loadConfig({ flags })
  const flag = flagOf(key)
  if (apiKey !== '') warnOfReadableKey(url, flag, output)
  return createApi(url, systemClock(), { flag, apiKey })
}
type ForCommand = Pick<CommandCall, 'flags' | 'output'>

/** To stderr; silent with --json. Names only the host of the URL, because the rest may contain a password. */
function warnOfReadableKey(url: string, flag: string, output: Output): void {
  const { protocol, host } = new URL(url)
  if (protocol !== 'http:' || isLoopbackHost(host)) return
  output.note(
    `Warning: the API key is sent to ${host} without TLS, so it can be read on the way. Use ${flag} to name a URL that begins with https://, or a tunnel on this machine.`,
  )
}

/** Makes a query string of the options that were given; empty without any. */
export function queryOf(
  options: Readonly<Record<string, CommandOptions[string] | number>>,
  names: readonly string[],
): string {
  const given = names.filter((name) => options[name] !== undefined)
  const query = new URLSearchParams(given.map((name) => [name, String(options[name])]))
  return given.length === 0 ? '' : `?${query.toString()}`
}

async function* eventsOf(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  clock: Clock,
): AsyncGenerator<EventSourceMessage> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  const events: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (event) => events.push(event), maxBufferSize: EVENT_LENGTH })
  try {
    for (;;) {
      const { done, value } = await within(clock, SILENCE_MS, reader.read(), SILENT)
      if (done) return
      parser.feed(value)
      yield* events.splice(0)
    }
  } finally {
    reader.cancel().catch(() => undefined) // fails if the stream was already lost
  }
}

async function* linesOf(body: ReadableStream<Uint8Array<ArrayBuffer>>, clock: Clock): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await within(clock, SILENCE_MS, reader.read(), SILENT).catch(brokenOff)
      if (done) return
      const lines = (rest + value).split('\n')
      rest = lines.pop()!
      yield* lines
    }
  } finally {
    reader.cancel().catch(() => undefined) // fails if the stream was already lost
  }
}

function brokenOff(cause: unknown): never {
  throw new Retry('unavailable', 'The answer broke off', { cause })
}

function stranger(url: string): Abort {
  return new Abort('internal', `${url} does not answer as this release of Fleetline does`)
}

async function failureOf(answer: Response, request: string): Promise<Error> {
  const refusal = refusalSchema.safeParse(await jsonOf(answer))
  if (!refusal.success) {
    const text = `${request} was answered with ${answer.status}, not by Fleetline`
    return answer.status >= 500 ? new Retry('unavailable', text) : new Abort('internal', text)
  }
  const { code, text, retryable, requestId } = refusal.data.error
  const isAlias = text.startsWith('There is no such session') && namesSessionByAlias(request)
  const isGeneral = retryable && code !== 'rate_limited'
  const needsAdvice = isGeneral || text.startsWith('There is no such') // other texts say what to do
  const advice =
    code === 'unauthenticated' ? ` ${SET_A_KEY}` : needsAdvice ? ` ${ERROR_CODES[code].advice}` : ''
  const alias = isAlias ? ' If it was erased, its alias is free: use the id.' : ''
  const said = `${text.replace(/\.?$/, '.')}${advice}${alias} (${request}, ${requestId})`
  return retryable ? new Retry(code, said) : new Rejected(code, said)
}

function namesSessionByAlias(request: string): boolean {
  const [, session] = /^\w+ \/v1\/sessions\/([^/?]+)/.exec(request) ?? []
  return session !== undefined && SESSION_ALIAS.test(decodeURIComponent(session))
}

/** A URL cannot have such a part: it would name another route. */
function refuseDots(path: string): void {
  const dots = path
    .replace(/\?.*/, '')
    .split('/')
    .find((part) => part === '.' || part === '..')
  if (dots !== undefined) throw new Rejected('invalid', `"${dots}" cannot be an id or a name here: check it`)
}

async function jsonOf(answer: Response): Promise<unknown> {
  const text = await answer.text().catch(brokenOff)
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
