// What AG-UI's own client makes of a stream of events, and a reader of one.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { AbstractAgent, type BaseEvent, type Message, type RunAgentInput, type State } from '@ag-ui/client'
import { EventSchema } from '@ag-ui/core/schemas'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { from, type Observable } from 'rxjs'
import { atEnd } from './cleanup.ts'

type AgUiEvent = { readonly type: string }

class Replayed extends AbstractAgent {
  readonly #events: readonly AgUiEvent[]
  constructor(events: readonly AgUiEvent[], messages: readonly Message[], state: State) {
    super({ threadId: 't', initialMessages: [...messages], initialState: state })
    this.#events = events
  }
  run(_input: RunAgentInput): Observable<BaseEvent> {
    return from(structuredClone(this.#events) as BaseEvent[])
  }
}

export type ReadByAgUi = {
  readonly messages: readonly Message[]
  readonly state: unknown
  readonly error: unknown
  /** What it has removed, because the protocol does not describe it. */
  readonly warnings: readonly string[]
}

/** Runs the events through its schemas, the check of their order, and its reducer. */
export async function readByAgUi(
  events: readonly AgUiEvent[],
  { messages = [], state = {} }: { readonly messages?: readonly Message[]; readonly state?: State } = {},
): Promise<ReadByAgUi> {
  const agent = new Replayed(events, messages, state)
  let failed: unknown
  const warnings: string[] = []
  const warn = (text: string) => text.includes('[enforce]') && warnings.push(text)
  const loud = { error: console.error, warn: console.warn }
  Object.assign(console, { error: () => undefined, warn }) // it prints what it refuses
  await agent
    .runAgent({ runId: 'r' }, { onRunFailed: ({ error }) => void (failed = error) })
    .catch((error: unknown) => {
      failed ??= error
    })
  Object.assign(console, loud)
  return { messages: agent.messages, state: agent.state, error: failed, warnings }
}

/** What the schemas say of an event. Fields that they do not know count as faults, too. */
export function faultsOf(event: AgUiEvent): readonly string[] {
  const parsed = EventSchema.safeParse(event)
  return parsed.success
    ? []
    : parsed.error.issues.map(({ path, message }) => `${event.type}.${path.join('.')}: ${message}`)
}

/** Reads a session as AG-UI events. */
export async function followAgUi(
  t: TestContext,
  url: string,
  headers: Readonly<Record<string, string>> = {},
) {
  const cutting = new AbortController()
  atEnd(t, () => cutting.abort())
  const answer = await fetch(url, { headers, signal: cutting.signal })
  assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, 'text/event-stream'])
  const [events, ids] = [[] as AgUiEvent[], [] as string[]]
  const parsed = answer.body!.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
  const reading = (async () => {
    for await (const { data, id } of parsed) {
      events.push(JSON.parse(data) as AgUiEvent)
      if (id !== undefined) ids.push(id)
    }
  })().catch(() => undefined)
  return {
    events,
    lastId: () => ids.at(-1),
    types: () => events.map(({ type }) => type),
    /** All words that were sent. */
    text: () => events.map((event) => ('delta' in event ? String(event.delta) : '')).join(''),
    cut: async () => {
      cutting.abort()
      await reading
    },
  }
}
