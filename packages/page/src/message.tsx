// One message on a device: what a person said, or a reply with the attempts it took.
import type { Message } from '@fleetline/client'
import { Fragment } from 'preact'
import { Copy } from './code.ts'
import type { Device } from './device.ts'
import { Parts } from './parts.tsx'
import { marksOf, type Trail } from './trail.ts'

type Props = {
  readonly message: Message
  readonly trail: Trail | undefined
  readonly device: Device
  /** Why a reply that is under way has halted. Null if it has not. */
  readonly halt: string | null
  /** The message that a reply answers. */
  readonly asked: Message | undefined
}

const ERASED = 'This message was erased.'

export function MessageRow({ message, trail, device, halt, asked }: Props) {
  return message.role === 'user' ? (
    <div class={`user ${message.delivery}`} id={rowOf(device, message)}>
      <div class="said">{textOf(message)}</div>
      <Delivery message={message} device={device} />
    </div>
  ) : (
    <div class="reply">
      <Asked message={asked} device={device} />
      {message.erased && <i>{ERASED}</i>}
      <Parts parts={message.parts} isOpen={message.delivery === 'open' && halt === null} />
      <Attempts trail={trail} message={message} halt={halt} />
    </div>
  )
}

function Delivery({ message: { id, seq, delivery, refusal }, device }: { message: Message; device: Device }) {
  if (delivery === 'failed')
    return (
      <span class="refusal" role="alert">
        {refusal?.text ?? 'It was refused.'}
        <button onClick={() => device.retry(id)}>Send again</button>
        <button onClick={() => device.discard(id)}>Discard</button>
      </span>
    )
  return <span class="seq">{seq === null ? 'not stored yet' : `seq ${seq}`}</span>
}

/** Names the message that a reply answers; a click shows it. */
export function Asked({ message, device }: { message: Message | undefined; device: Device }) {
  if (!message) return null
  const show = () => document.getElementById(rowOf(device, message))?.scrollIntoView({ block: 'center' })
  return (
    <button class="asked" title="Show the message that this answers" onClick={show}>
      ↳ {textOf(message)}
    </button>
  )
}

type AttemptsProps = Pick<Props, 'trail' | 'halt'> & { message?: Message; wait?: string | undefined }

/** `wait`: what a reply without words waits for. */
export function Attempts({ trail, message, halt, wait }: AttemptsProps) {
  const marks = trail ? marksOf(trail, halt !== null) : []
  return (
    <div class="trail">
      {message?.status && <b class={message.status}>{message.status}</b>}
      {marks.map(({ isLost, text }, index) => (
        <Fragment key={index}>
          {index > 0 && <i>→</i>}
          <b class={isLost ? 'lost' : 'now'}>{text}</b>
        </Fragment>
      ))}
      {(halt ?? wait) !== undefined && <span>{halt ?? wait}</span>}
      {message && message.seq !== null && (
        <>
          <span class="seq">seq {message.seq}</span>
          <Copy text={wordsOf(message)} what={`the reply, seq ${message.seq}`} />
        </>
      )}
    </div>
  )
}

function textOf({ parts, erased }: Message): string {
  if (erased) return ERASED
  return parts.map((part) => (typeof part['text'] === 'string' ? part['text'] : `[${part.type}]`)).join('\n')
}

/** What the agent said, without its reasoning and its tools. */
function wordsOf({ parts }: Message): string {
  return parts.flatMap((part) => (part.type === 'text' ? [String(part['text'])] : [])).join('\n\n')
}

function rowOf({ name }: Device, { id }: Message): string {
  return `${name} ${id}`
}
