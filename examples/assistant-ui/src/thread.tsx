// One thread, of the primitives of assistant-ui: its messages, and the box for the next one.
import {
  ActionBarPrimitive,
  AuiIf,
  ComposerPrimitive,
  ErrorPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  useAuiState,
} from '@assistant-ui/react'
import type { Message } from '@fleetline/client'
import type { SessionView } from '@fleetline/client/react'

/** The session: the store carries it as `extras`. */
const useShown = () => useAuiState(({ thread }) => thread.extras as SessionView)

export function Thread() {
  const { hasOlder, loadOlder, refusal } = useShown()
  return (
    <ThreadPrimitive.Root className="thread">
      <ThreadPrimitive.Viewport className="viewport">
        {hasOlder && <button onClick={() => void loadOlder().catch(() => undefined)}>Older messages</button>}
        <AuiIf condition={({ thread }) => thread.isEmpty && !thread.isLoading}>
          <p className="hint">What is on your mind?</p>
        </AuiIf>
        <ThreadPrimitive.Messages>
          {({ message }) => {
            if (message.composer.isEditing) return <Editor />
            return message.role === 'user' ? <Question /> : <Reply />
          }}
        </ThreadPrimitive.Messages>
        {refusal && <p className="error">{refusal.text}</p>}
      </ThreadPrimitive.Viewport>
      <ComposerPrimitive.Root className="composer">
        <ComposerPrimitive.Input placeholder="Message" aria-label="Message" rows={1} autoFocus />
        <AuiIf condition={({ thread }) => !thread.isRunning}>
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        </AuiIf>
        <AuiIf condition={({ thread }) => thread.isRunning}>
          <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
        </AuiIf>
      </ComposerPrimitive.Root>
    </ThreadPrimitive.Root>
  )
}

function Question() {
  const { delivery, erased } = useAuiState(({ message }) => message.metadata.custom['fleetline'] as Message)
  return (
    <MessagePrimitive.Root className={`message user ${delivery}`}>
      {erased && <em>This message was erased.</em>}
      <Parts />
      {delivery === 'failed' && <Rejected />}
      <ActionBarPrimitive.Root hideWhenRunning className="actions">
        <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
      </ActionBarPrimitive.Root>
    </MessagePrimitive.Root>
  )
}

function Rejected() {
  const { retry, discard } = useShown()
  const { id, refusal } = useAuiState(({ message }) => message.metadata.custom['fleetline'] as Message)
  return (
    <p className="error" role="alert">
      {refusal?.text} <button onClick={() => retry(id)}>Retry</button>{' '}
      <button onClick={() => discard(id)}>Discard</button>
    </p>
  )
}

function Reply() {
  const status = useAuiState(({ message }) => message.status)
  return (
    <MessagePrimitive.Root className={`message assistant ${status?.type}`}>
      <AuiIf condition={({ message }) => message.parts.length === 0 && message.status?.type === 'running'}>
        <p className="thinking">Thinking…</p>
      </AuiIf>
      <Parts />
      {status?.type === 'incomplete' && status.reason === 'cancelled' && <small>stopped</small>}
      <MessagePrimitive.Error>
        <ErrorPrimitive.Root className="error">
          <ErrorPrimitive.Message />
        </ErrorPrimitive.Root>
      </MessagePrimitive.Error>
      <ActionBarPrimitive.Root hideWhenRunning className="actions">
        <ActionBarPrimitive.Reload>Regenerate</ActionBarPrimitive.Reload>
        <ActionBarPrimitive.Copy>Copy</ActionBarPrimitive.Copy>
      </ActionBarPrimitive.Root>
    </MessagePrimitive.Root>
  )
}

function Parts() {
  return (
    <MessagePrimitive.Parts>
      {({ part }) => {
        switch (part.type) {
          case 'text':
            return <p className="text">{part.text}</p>
          case 'reasoning':
            return <Folded title="Thoughts">{part.text}</Folded>
          case 'tool-call':
            return (
              <Folded title={`${part.toolName}${part.result === undefined ? ' …' : ''}`}>
                {part.argsText}
                {'\n'}
                {JSON.stringify(part.result)}
              </Folded>
            )
          case 'image':
            return <img src={part.image} alt={part.filename ?? ''} />
          default:
            return null
        }
      }}
    </MessagePrimitive.Parts>
  )
}

function Folded({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <details>
      <summary>{title}</summary>
      <pre>{children}</pre>
    </details>
  )
}

function Editor() {
  return (
    <ComposerPrimitive.Root className="composer editor">
      <ComposerPrimitive.Input aria-label="Edited message" rows={1} autoFocus />
      <ComposerPrimitive.Cancel>Cancel</ComposerPrimitive.Cancel>
      <ComposerPrimitive.Send>Save</ComposerPrimitive.Send>
    </ComposerPrimitive.Root>
  )
}
