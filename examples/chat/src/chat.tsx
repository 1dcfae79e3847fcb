// One chat: its messages, the reply while it is written, and the box for the next message.
import type { Message } from '@fleetline/client'
import { useSession, type SessionView } from '@fleetline/client/react'
import { memo, useEffect, useState, type KeyboardEvent } from 'react'
import Markdown from 'react-markdown'
import remarkGfm from 'remark-gfm'

const ignore = () => undefined // the message or the button stays for another try
const HINTS: Record<string, string> = { waiting: 'Waiting…', working: 'Thinking…', recovering: 'Retrying…' }
const textOf = ({ parts }: Message) =>
  parts.flatMap(({ type, text }) => (type === 'text' ? [text] : [])).join('\n\n')

export function Chat({ id }: { id: string }) {
  const session = useSession(id)
  const { messages, head, status, turn, loading, refusal, hasOlder, loadOlder, markRead } = session
  const isSilent = status === 'streaming' && !messages.slice(-1).some(textOf)
  const hint = HINTS[isSilent ? 'working' : status]
  useEffect(() => void (head > 0 && markRead().catch(ignore)), [head, markRead])
  return (
    <>
      <section role="log" aria-label="Messages" aria-busy={status === 'streaming'} tabIndex={0}>
        <div>
          {hasOlder && <button onClick={() => void loadOlder().catch(ignore)}>Older messages</button>}
          {messages.map((message) => (
            <Row key={message.id} message={message} retry={session.retry} discard={session.discard} />
          ))}
          {messages.length === 0 && <p className="hint">{loading ? 'Loading…' : 'What is on your mind?'}</p>}
          {hint && <p className="hint thinking">{hint}</p>}
          {status === 'failed' && <p className="error">The reply failed. {turn?.error?.message}</p>}
          {refusal && <p className="error">{refusal.text}</p>}
        </div>
      </section>
      <Composer session={session} />
    </>
  )
}

type RowProps = { message: Message } & Pick<SessionView, 'retry' | 'discard'>

/** A chunk changes only the open message, so only that one is rendered again. */
const Row = memo(function Row({ message, retry, discard }: RowProps) {
  const { id, role, delivery, refusal, status, erased } = message
  return (
    <article className={`${role} ${delivery}`}>
      {erased && <em>This message was erased.</em>}
      {role === 'user' ? textOf(message) : <Markdown remarkPlugins={[remarkGfm]}>{textOf(message)}</Markdown>}
      {status && <small>{status}</small>}
      {delivery === 'failed' && (
        <small className="error" role="alert">
          {refusal?.text} <button onClick={() => retry(id)}>Retry</button>{' '}
          <button onClick={() => discard(id)}>Discard</button>
        </small>
      )}
    </article>
  )
})

function Composer({ session: { head, send, stop, status, change } }: { session: SessionView }) {
  const [text, setText] = useState('')
  const isEmpty = text.trim() === ''
  const isLive = !['idle', 'failed'].includes(status)
  const submit = () => {
    if (isEmpty) return
    send(text).sent.catch(ignore)
    if (head === 0) change({ title: text.trim().replace(/\s+/g, ' ').slice(0, 60) }).catch(ignore)
    setText('')
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === 'Escape' && isLive) stop().catch(ignore)
    if (event.key !== 'Enter' || event.shiftKey) return
    event.preventDefault()
    submit()
  }
  return (
    <form action={isLive && isEmpty ? () => void stop().catch(ignore) : submit}>
      <textarea
        aria-label="Message"
        placeholder="Message"
        rows={1}
        autoFocus
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <button disabled={isEmpty && !isLive}>{isLive && isEmpty ? 'Stop' : 'Send'}</button>
    </form>
  )
}
