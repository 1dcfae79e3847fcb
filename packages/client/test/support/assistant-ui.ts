// assistant-ui without a page: the runtime that `useExternalStoreRuntime` makes. The package exports the hook, but not what it calls, so
// the files are named here; its version is pinned. And messages to show in it.
import type { AssistantRuntime, ThreadMessage } from '@assistant-ui/core'
import type { Id, Part, Turn } from '@fleetline/protocol'
import { AssistantRuntimeImpl } from '../../../../node_modules/@assistant-ui/core/dist/runtime/api/assistant-runtime.js'
import { ExternalStoreRuntimeCore } from '../../../../node_modules/@assistant-ui/core/dist/runtimes/external-store/external-store-runtime-core.js'
import type { ExternalStore, ThreadList } from '../../src/assistant-ui.ts'
import type { Message } from '../../src/view.ts'

export type Adapter = ExternalStore & { readonly adapters?: { readonly threadList: ThreadList } }
type Core = ConstructorParameters<typeof ExternalStoreRuntimeCore>[0]

export type RuntimeInTest = {
  readonly runtime: AssistantRuntime
  /** What the hook does when the component renders again. */
  readonly set: (adapter: Adapter | Core) => void
  readonly messages: () => readonly ThreadMessage[]
  /** How many branches each message has. */
  readonly branches: () => readonly number[]
}

export function runtimeOf(adapter: Adapter | Core): RuntimeInTest {
  const core = new ExternalStoreRuntimeCore(adapter)
  const thread = () => core.threads.getMainThreadRuntimeCore()
  return {
    runtime: new AssistantRuntimeImpl(core),
    set: (next) => core.setAdapter(next),
    messages: () => thread().messages,
    branches: () => thread().messages.map(({ id }) => thread().getBranches(id).length),
  }
}

export const AT = '2026-11-19T08:00:00.000Z'
const agent = { kind: 'agent', id: 'guide' } as const
const user = { kind: 'user', id: 'ada' } as const

/** A message of a user; without a seq, one that is being sent. */
export function messageOf(seq: number | null, parts: readonly Part[], more: Partial<Message> = {}): Message {
  const place = seq === null ? ({ delivery: 'pending' } as const) : ({ delivery: 'sent', at: AT } as const)
  return { id: `m${seq ?? 'new'}`, role: 'user', parts, seq, author: user, ...place, ...more }
}

export function replyOf(seq: number | null, parts: readonly Part[], more: Partial<Message> = {}): Message {
  return messageOf(seq, parts, { role: 'assistant', author: agent, ...more })
}

export function textOf(text: string): readonly Part[] {
  return [{ type: 'text', text }]
}

/** The turn that writes the message `msg_1`. */
export function turnOf(more: Partial<Turn> = {}): Turn {
  return {
    id: 'turn_1' as Id<'turn'>,
    session: 'ses_1' as Id<'session'>,
    state: 'running',
    epoch: 1,
    attempt: 1,
    agent: 'guide',
    message: 'msg_1' as Id<'message'>,
    answers: { from: 1, to: 1 },
    pod: null,
    startedAt: '2026-11-19T09:00:00.000Z',
    retryAt: null,
    waitsFor: null,
    endedAt: null,
    error: null,
    ...more,
  }
}
