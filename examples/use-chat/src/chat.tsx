// A chat with the AI SDK alone. Specific to Fleetline: the URL and the headers of the transport, and how to load, resume and stop.
import { useChat } from '@ai-sdk/react'
import { DefaultChatTransport, type UIMessage } from 'ai'
import sdk from 'ai/package.json'
import { useEffect, useState } from 'react'

/** The token of the user comes from your back end. */
export async function headers(): Promise<Record<string, string>> {
  const answer = await fetch('/api/token')
  if (!answer.ok) throw new Error(await answer.text())
  return { authorization: `Bearer ${await answer.text()}`, 'x-fleetline-ai-sdk': sdk.version }
}

const urlOf = (id: string) => `/v1/chat/${encodeURIComponent(id)}`

async function load(id: string): Promise<UIMessage[]> {
  const answer = await fetch(`${urlOf(id)}/messages`, { headers: await headers() })
  if (!answer.ok) throw new Error(await answer.text())
  return (await answer.json()) as UIMessage[]
}

const transport = new DefaultChatTransport({ api: '/v1/chat', headers })

function textOf({ parts }: UIMessage): string {
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
}

export function Chat({ id }: { readonly id: string }) {
  const [text, setText] = useState('')
  const [editing, setEditing] = useState<string>()
  const [isReady, setReady] = useState(false)
  const [failure, setFailure] = useState<Error>()
  const { messages, setMessages, status, error, sendMessage, regenerate, resumeStream, clearError } = useChat(
    {
      id,
      transport,
      onFinish: ({ isDisconnect }) => void (isDisconnect && recover()),
    },
  )
  /** Shows what is stored, and follows the reply that is being written. It may end just before it can be followed: then it is stored now. */
  const recover = async () => {
    clearError()
    setFailure(undefined)
    try {
      const before = await load(id)
      setMessages(before)
      setReady(true)
      await resumeStream()
      if (before.at(-1)?.role !== 'user') return
      const stored = await load(id)
      setMessages((shown) => (shown.length === before.length ? stored : shown))
    } catch (failed) {
      setFailure(failed as Error)
    }
  }
  useEffect(() => void recover(), [id])
  const shownError = error ?? failure
  const isBusy = status === 'submitted' || status === 'streaming'
  const stop = async () => fetch(`${urlOf(id)}/stop`, { method: 'POST', headers: await headers() })
  const send = () => {
    clearError()
    void sendMessage({ text, ...(editing && { messageId: editing }) })
    setText('')
    setEditing(undefined)
  }
  return (
    <main>
      {messages.map((message) => (
        <article key={message.id} className={message.role}>
          <p>{textOf(message)}</p>
          {message.role === 'user' && !isBusy && (
            <button onClick={() => (setText(textOf(message)), setEditing(message.id))}>Edit</button>
          )}
        </article>
      ))}
      {shownError && (
        <p role="alert">
          {shownError.message} <button onClick={() => void recover()}>Load again</button>
        </p>
      )}
      <form onSubmit={(event) => (event.preventDefault(), send())}>
        <input aria-label="Message" value={text} onChange={({ target }) => setText(target.value)} />
        <button disabled={!isReady || text.trim() === ''}>{editing ? 'Save' : 'Send'}</button>
        {isBusy ? (
          <button type="button" onClick={() => void stop()}>
            Stop
          </button>
        ) : (
          messages.length > 0 && (
            <button type="button" onClick={() => void regenerate()}>
              Regenerate
            </button>
          )
        )}
      </form>
      <output>{status}</output>
    </main>
  )
}
