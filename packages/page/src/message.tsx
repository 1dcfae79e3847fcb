// One message on a device: what a person said, or a reply with the attempts it took.
import type { Message } from '@fleetline/client'
import { Fragment } from 'preact'
import type { Device } from './device.ts'
import { Parts } from './parts.tsx'
import { marksOf, type Trail } from './trail.ts'

type Props = {
  readonly message: Message
  readonly trail: Trail | undefined
  readonly device: Device
  /** Of a reply that is being said: why it does not go on right now, if it does not. */
  readonly halt: string | null
}

export function MessageRow({ message, trail, device, halt }: Props) {
  return message.role === 'user' ? (
    <div class={`user ${message.delivery}`}>
      <div class="said">{textOf(message)}</div>
      <Delivery message={message} device={device} />
    </div>
  ) : (
    <div class="reply">
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

export function Attempts({ trail, message, halt }: Pick<Props, 'trail' | 'halt'> & { message?: Message }) {
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
      {halt !== null && <span>{halt}</span>}
      {message && message.seq !== null && <span class="seq">seq {message.seq}</span>}
    </div>
  )
}

function textOf({ parts }: Message): string {
  return parts.map((part) => (typeof part['text'] === 'string' ? part['text'] : `[${part.type}]`)).join('\n')
}
