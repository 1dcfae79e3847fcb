// A device as it is shown: through which pod it hears, the conversation, and where to write.
import type { Status } from '@fleetline/client'
import { useState } from 'preact/hooks'
import type { ScenePod } from '../../server/src/cli/dev/page/wire.ts'
import { replyOf, type Device, type DeviceView } from './device.ts'
import { Attempts, MessageRow } from './message.tsx'
import { usePinned } from './pinned.ts'
import { useStore } from './store.ts'
import { haltWords, linkWords } from './words.ts'

type Props = {
  readonly device: Device
  readonly home: string | undefined
  readonly pods: readonly ScenePod[]
}

const SHOWN = 100
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
  return (
    <section class="device" aria-label={`Ann's ${device.name}`}>
      <header>
        Ann <span>{device.name}</span>
        <div class={`live ${tone}`} role="status">
          <i class="dot" />
          {text}
        </div>
      </header>
      <Log device={device} view={view} pods={pods} />
      <Composer device={device} isLive={LIVE.has(view.snapshot.status)} />
    </section>
  )
}

type LogProps = Pick<Props, 'device' | 'pods'> & { readonly view: DeviceView }

function Log({ device, view, pods }: LogProps) {
  const { messages, trails } = view
  const { turn, status } = view.snapshot
  const halt = haltWords(replyOf(view), pods)
  const hidden = Math.max(0, messages.length - SHOWN)
  const isSilent = LIVE.has(status) && messages.at(-1)?.delivery !== 'open'
  const { ref, onScroll } = usePinned<HTMLDivElement>(view)
  const label = `What is said, on Ann's ${device.name}`
  return (
    <div
      class="log"
      role="log"
      aria-label={label}
      aria-busy={LIVE.has(status)}
      tabIndex={0}
      ref={ref}
      onScroll={onScroll}
    >
      {hidden > 0 && <p class="hint">… and what was said before: {hidden} in the log</p>}
      {messages.length === 0 && <p class="hint">Say something, on either device. Then kill a pod.</p>}
      {messages.slice(hidden).map((message) => {
        const halted = message.delivery === 'open' ? halt : null
        const trail = message.turn === undefined ? undefined : trails.get(message.turn)
        return <MessageRow key={message.id} message={message} trail={trail} device={device} halt={halted} />
      })}
      {isSilent && turn && (
        <div class="reply">
          <div class="text open" />
          <Attempts trail={trails.get(turn.id)} halt={halt} />
        </div>
      )}
      {status === 'failed' && (
        <p class="refusal">The reply has failed: {turn?.error?.message ?? 'it does not say why'}</p>
      )}
    </div>
  )
}

type ComposerProps = { readonly device: Device; readonly isLive: boolean }

function Composer({ device, isLive }: ComposerProps) {
  const [draft, setDraft] = useState('')
  const stop = () => void device.stop().catch(() => undefined) // what is shown tells
  const send = (text: string) => void device.send(text).sent.catch(() => undefined) // its row tells
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
          aria-label={`Message from Ann's ${device.name}`}
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
