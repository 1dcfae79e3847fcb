// A device as it is shown: through which pod it hears, the conversation, and where to write.
import type { Status } from '@fleetline/client'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Scene } from '../../server/src/cli/dev/page/wire.ts'
import type { Device, DeviceView } from './device.ts'
import { Attempts, MessageRow } from './message.tsx'
import { useStore } from './store.ts'
import { haltWords, linkWords } from './words.ts'

type Props = { readonly device: Device; readonly home: string | undefined; readonly scene: Scene | null }

const SHOWN = 100
const CHIPS = [
  ['long', 'write a long poem'],
  ['think', 'think about pods'],
  ['fail twice', 'fail twice, please'],
  ['slow', 'take it slow'],
] as const
const LIVE: ReadonlySet<Status> = new Set<Status>(['waiting', 'working', 'streaming', 'recovering'])

export function Chat({ device, home, scene }: Props) {
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
      <Log device={device} view={view} scene={scene} />
      <Composer device={device} status={view.snapshot.status} />
    </section>
  )
}

type LogProps = { readonly device: Device; readonly view: DeviceView; readonly scene: Scene | null }

function Log({ device, view, scene }: LogProps) {
  const { messages, trails } = view
  const { turn, status } = view.snapshot
  const halt = haltWords(turn, scene?.pods ?? [])
  const hidden = Math.max(0, messages.length - SHOWN)
  const isSilent = LIVE.has(status) && messages.at(-1)?.delivery !== 'open'
  const { ref, onScroll } = usePinned(view)
  return (
    <div class="log" role="log" tabIndex={0} ref={ref} onScroll={onScroll}>
      {hidden > 0 && <p class="hint">{hidden} earlier messages are in the log</p>}
      {messages.length === 0 && <p class="hint">Say something, on either device. Then kill a pod.</p>}
      {messages.slice(hidden).map((message) => {
        const halted = message.delivery === 'open' ? halt : null
        const trail = message.turn === undefined ? undefined : trails.get(message.turn)
        return <MessageRow key={message.id} message={message} trail={trail} device={device} halt={halted} />
      })}
      {isSilent && turn && (
        <div class="reply silent">
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

/** Stays at the end while it is there; who scrolls up is left alone. */
function usePinned(view: DeviceView) {
  const ref = useRef<HTMLDivElement>(null)
  const isPinned = useRef(true)
  useLayoutEffect(() => {
    const log = ref.current!
    if (isPinned.current) log.scrollTop = log.scrollHeight
  }, [view])
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = ref.current!
    isPinned.current = scrollHeight - scrollTop - clientHeight < 40
  }
  return { ref, onScroll }
}

function Composer({ device, status }: { readonly device: Device; readonly status: Status }) {
  const [draft, setDraft] = useState('')
  const isLive = LIVE.has(status)
  const stop = () => void device.stop().catch(() => undefined) // what is shown tells
  const send = (text: string) => {
    if (text.trim() === '') return
    device.send(text).sent.catch(() => undefined) // its row tells
    setDraft('')
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape' && isLive) stop()
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
    event.preventDefault()
    send(draft)
  }
  return (
    <form
      class="compose"
      onSubmit={(event) => {
        event.preventDefault()
        send(draft)
      }}
    >
      <div class="chips">
        {CHIPS.map(([label, text]) => (
          <button key={label} type="button" onClick={() => send(text)}>
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
        {isLive && draft === '' ? (
          <button key="stop" type="button" class="stop" title="Esc" onClick={stop}>
            Stop
          </button>
        ) : (
          <button key="send" type="submit" class="send" title="Enter" disabled={draft.trim() === ''}>
            Send
          </button>
        )}
      </div>
    </form>
  )
}
