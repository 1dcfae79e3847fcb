// AG-UI events of an agent, of every type that says something, in any order.
import * as fc from 'fast-check'

export type AgUiEvent = { readonly type: string; readonly [field: string]: unknown }

const messageId = fc.constantFrom('m1', 'm2', 'm3')
const toolCallId = fc.constantFrom('c1', 'c2')
const delta = fc.oneof(fc.constantFrom('', 'word ', 'né', '👋', '{"a":', '1}'), fc.string({ maxLength: 4 }))
const content = fc.oneof(
  fc.constantFrom('', 'sunny', '{"t":1}'),
  fc.constant([{ type: 'text', text: 'sunny' }]),
)
const patch = fc.array(
  fc.record({
    op: fc.constantFrom('add', 'replace', 'remove'),
    path: fc.constantFrom('/a', '/b', '/a/0', '/a/-', '/b/c'),
    value: fc.constantFrom<unknown>(1, 'x', [1, 2], { c: 3 }, null).map(structuredClone),
  }),
  { maxLength: 3 },
)
const state = fc.constantFrom<unknown>({}, { a: [1], b: { c: 2 } }, [1, 2], 'text')
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })

function event(type: string, fields: Record<string, fc.Arbitrary<unknown>> = {}): fc.Arbitrary<AgUiEvent> {
  return fc.record(fields).map((all) => {
    const given = Object.entries(all).filter(([, value]) => value !== undefined)
    return { type, ...Object.fromEntries(given) }
  })
}

const WHOLE = [
  event('TEXT_MESSAGE_START', {
    messageId,
    role: fc.constantFrom(undefined, 'assistant', 'assistant', 'user'),
  }),
  event('TEXT_MESSAGE_CONTENT', { messageId, delta }),
  event('TEXT_MESSAGE_CONTENT', { messageId, delta }),
  event('TEXT_MESSAGE_END', { messageId }),
  event('TOOL_CALL_START', {
    toolCallId,
    toolCallName: fc.constant('weather'),
    parentMessageId: maybe(fc.constant('p1')),
  }),
  event('TOOL_CALL_ARGS', { toolCallId, delta }),
  event('TOOL_CALL_END', { toolCallId }),
  event('TOOL_CALL_RESULT', { messageId: toolCallId.map((id) => `result of ${id}`), toolCallId, content }),
  event('REASONING_MESSAGE_START', {
    messageId: messageId.map((id) => `r${id}`),
    role: fc.constant('reasoning'),
  }),
  event('REASONING_MESSAGE_CONTENT', { messageId: messageId.map((id) => `r${id}`), delta }),
  event('REASONING_MESSAGE_END', { messageId: messageId.map((id) => `r${id}`) }),
  event('STATE_SNAPSHOT', { snapshot: state }),
  event('STATE_DELTA', { delta: patch }),
  event('ACTIVITY_SNAPSHOT', {
    messageId: fc.constantFrom('a1', 'a2'),
    activityType: fc.constant('plan'),
    content: fc.constantFrom({}, { a: [1], b: {} }),
    replace: maybe(fc.boolean()),
  }),
  event('ACTIVITY_DELTA', {
    messageId: fc.constantFrom('a1', 'a2'),
    activityType: fc.constant('plan'),
    patch,
  }),
  event('CUSTOM', {
    name: fc.constantFrom('progress', ''),
    value: fc.constantFrom<unknown>(1, null, { a: 1 }),
  }),
  event('RAW', { event: fc.constant({ of: 'the framework' }) }),
]
const SHORT = [
  event('TEXT_MESSAGE_CHUNK', { messageId: maybe(messageId.map((id) => `t${id}`)), delta: maybe(delta) }),
  event('TOOL_CALL_CHUNK', {
    toolCallId: maybe(toolCallId.map((id) => `t${id}`)),
    toolCallName: maybe(fc.constant('weather')),
    delta: maybe(delta),
  }),
  event('REASONING_MESSAGE_CHUNK', {
    messageId: maybe(messageId.map((id) => `s${id}`)),
    delta: maybe(delta),
  }),
]

/** Without calls that begin again after their result, which we refuse, results without a call, which we ignore, and second results: for us
 *  the last one counts. */
export const anyEvents = fc.array(fc.oneof(...WHOLE, ...SHORT), { maxLength: 16 }).map((events) => {
  const [begun, settled] = [new Set<unknown>(), new Set<unknown>()]
  return events.filter(({ type, toolCallId: id }) => {
    if (type === 'TOOL_CALL_START') begun.add(id)
    if (type === 'TOOL_CALL_START') return !settled.has(id)
    const isFirst = begun.has(id) && !settled.has(id)
    if (type === 'TOOL_CALL_RESULT' && isFirst) settled.add(id)
    return type !== 'TOOL_CALL_RESULT' || isFirst
  })
})

/** Closes what is open, as an agent must before its run ends. */
export function closing(events: readonly AgUiEvent[]): AgUiEvent[] {
  const open = new Map<string, AgUiEvent>()
  for (const { type, messageId: message, toolCallId: call } of events) {
    const [, prefix, step] =
      /^(TEXT_MESSAGE|TOOL_CALL|REASONING_MESSAGE|REASONING)_(START|END)$/.exec(type) ?? []
    if (!prefix) continue
    const id = prefix === 'TOOL_CALL' ? { toolCallId: call } : { messageId: message }
    if (step === 'START') open.set(`${prefix} ${String(call ?? message)}`, { type: `${prefix}_END`, ...id })
    else open.delete(`${prefix} ${String(call ?? message)}`)
  }
  return [...open.values()]
}
