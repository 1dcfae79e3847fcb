// A device on the page: the pod through which it reads, the conversation, and the box for messages.
import type { Status } from '@fleetline/client'
import { useState } from 'preact/hooks'
import type { ScenePod } from '../../server/src/cli/dev/page/wire.ts'
import { replyOf, type Device, type DeviceView } from './device.ts'
import { Conversations } from './conversations.tsx'
import { Asked, Attempts, MessageRow } from './message.tsx'
import { usePinned, type Pinned } from './pinned.ts'
import { useStore } from './store.ts'
import { haltWords, linkWords, waitWords } from './words.ts'

type Props = {
  readonly device: Device
  readonly home: string | undefined
  readonly pods: readonly ScenePod[]
}

const SHOWN = 100 // until older messages are asked for
const OLDER = 50
const CHIPS = [
  ['long', 'write a long poem'],
  ['think', 'think about pods'],
  ['fail twice', 'fail twice, please'],
  ['slow', 'take it slow'],
] as const
const LIVE: ReadonlySet<Status> = new Set<Status>(['waiting', 'working', 'streaming', 'recovering'])

export function Chat({ device, home, pods }: Props) {
  const view = useStore(device)
  const [tone, text] = linkWords(view.snapshot, view.pod, home)
  const [most, setMost] = useState(SHOWN)
  const pinned = usePinned<HTMLDivElement>(view, `${view.messages[0]?.seq} ${most}`)
  const hidden = Math.max(0, view.messages.length - most)
  const showOlder = async () => {
    if (hidden < OLDER) await device.loadOlder(OLDER)
    setMost(most + OLDER)
  }
  return (
    <section class="device" aria-label={`Ada's ${device.name}`}>
      <header>
        Ada <span>{device.name}</span>
        <div class={`live ${tone}`} role="status">
          <i class="dot" />
          {text}
        </div>
      </header>
      <Conversations device={device} view={view} />
      <Log {...{ device, view, pods, pinned, hidden, showOlder }} />
      <Composer device={device} isLive={LIVE.has(view.snapshot.status)} onSend={pinned.toEnd} />
    </section>
  )
}

type LogProps = Pick<Props, 'device' | 'pods'> & {
  readonly view: DeviceView
  readonly pinned: Pinned<HTMLDivElement>
  /** How many of the messages here are not shown, because they are old. */
  readonly hidden: number
  readonly showOlder: () => Promise<void>
}

function Log({ pinned, ...shown }: LogProps) {
  const { device, view } = shown
  const { ref, onScroll, isAtEnd, toEnd } = pinned
  const jump = () => {
    toEnd()
    ref.current?.focus() // the button goes away
  }
  return (
    <div class="log-frame">
      <div
        class="log"
        role="log"
        aria-label={`What is said, on Ada's ${device.name}`}
        aria-busy={LIVE.has(view.snapshot.status)}
        tabIndex={0}
        ref={ref}
        onScroll={onScroll}
      >
        <Conversation {...shown} />
      </div>
      {!isAtEnd && (
        <button class="latest" onClick={jump}>
          Jump to latest ↓
        </button>
      )}
    </div>
  )
}

function Conversation({ device, view, pods, hidden, showOlder }: Omit<LogProps, 'pinned'>) {
  const { messages, trails } = view
  const { turn, status } = view.snapshot
  const nowMs = Date.now()
  const halt = haltWords(replyOf(view), pods, nowMs)
  const isSilent = LIVE.has(status) && messages.at(-1)?.delivery !== 'open'
  const shown = messages.slice(hidden)
  const asked = shown.filter(({ role, seq }) => role === 'user' && seq !== null)
  const lastAsked = (seq: number) => asked.findLast((one) => one.seq! <= seq)
  const { from = 0, to = null } = turn?.answers ?? {}
  const askedNow = to === null ? asked.find((one) => one.seq! >= from) : lastAsked(to) // `to` is null until the turn has read its messages
  return (
    <>
      {(hidden > 0 || view.snapshot.hasOlder) && <Older show={showOlder} />}
      {messages.length === 0 && <p class="hint">Say something, on either device. Then kill a pod.</p>}
      {shown.map((message) => {
        const halted = message.delivery === 'open' ? halt : null
        const trail = message.turn === undefined ? undefined : trails.get(message.turn)
        const stored = message.answers === undefined ? undefined : lastAsked(message.answers)
        const row = {
          message,
          trail,
          device,
          halt: halted,
          asked: message.delivery === 'open' ? askedNow : stored,
        }
        return <MessageRow key={message.id} {...row} />
      })}
      {isSilent && turn && (
        <div class="reply">
          <Asked message={askedNow} device={device} />
          <div class="text open" />
          <Attempts trail={trails.get(turn.id)} halt={halt} wait={waitWords(turn, nowMs)} />
        </div>
      )}
      {status === 'failed' && (
        <p class="refusal">The reply has failed: {turn?.error?.message ?? 'it does not say why'}</p>
      )}
    </>
  )
}

function Older({ show }: { readonly show: () => Promise<void> }) {
  const [isLoading, setLoading] = useState(false)
  const load = () => {
    setLoading(true)
    show()
      .catch(() => undefined) // the button is there again
      .finally(() => setLoading(false))
  }
  return (
    <button class="older" disabled={isLoading} onClick={load}>
      {isLoading ? 'Loading…' : '↑ Older messages'}
    </button>
  )
}

type ComposerProps = {
  readonly device: Device
  readonly isLive: boolean
  readonly onSend: () => void
}

function Composer({ device, isLive, onSend }: ComposerProps) {
  const [draft, setDraft] = useState('')
  const stop = () => void device.stop().catch(() => undefined) // the page shows the outcome
  const send = (text: string) => {
    onSend() // scrolls to the end, so that senders see their own message
    device.send(text).sent.catch(() => undefined) // the row of the message shows the outcome
  }
  const sendDraft = () => {
    if (draft.trim() === '') return
    send(draft)
    setDraft('')
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === 'Escape' && isLive) stop()
    if (event.key !== 'Enter' || event.shiftKey) return
    event.preventDefault()
    sendDraft()
  }
  return (
    <div class="compose">
      <div class="chips">
        {CHIPS.map(([label, text]) => (
          <button key={label} onClick={() => send(text)}>
            {label}
          </button>
        ))}
      </div>
      <div class="box">
        <textarea
          rows={1}
          placeholder="Message…"
          aria-label={`Message from Ada's ${device.name}`}
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <SendOrStop
          isStop={isLive && draft === ''}
          canSend={draft.trim() !== ''}
          stop={stop}
          send={sendDraft}
        />
      </div>
    </div>
  )
}

type ButtonProps = {
  readonly isStop: boolean
  readonly canSend: boolean
  readonly stop: () => void
  readonly send: () => void
}

function SendOrStop({ isStop, canSend, stop, send }: ButtonProps) {
  return (
    <button
      class={isStop ? 'stop' : 'send'}
      title={isStop ? 'Escape' : 'Enter'}
      disabled={!isStop && !canSend}
      onClick={isStop ? stop : send}
    >
      {isStop ? 'Stop' : 'Send'}
    </button>
  )
}
