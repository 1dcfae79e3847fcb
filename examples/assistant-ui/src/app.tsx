// The runtime of assistant-ui over the session that the address of the page names, with the inbox of the user as its list of threads.
import { AssistantRuntimeProvider, useExternalStoreRuntime } from '@assistant-ui/react'
import { toExternalStore, toThreadList } from '@fleetline/client/assistant-ui'
import { useInbox, useSession } from '@fleetline/client/react'
import { useEffect, useState, useSyncExternalStore } from 'react'
import { Thread } from './thread.tsx'
import { Threads } from './threads.tsx'
import { makeSession } from './token.ts'

const onHash = (listener: () => void) => {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}
const open = (session: string) => void (location.hash = session)

export function App() {
  const { sessions, loading } = useInbox()
  const id = useSyncExternalStore(onHash, () => location.hash.slice(1)) || sessions[0]?.session
  const create = async () => open(sessions.find(({ head }) => head === 0)?.session ?? (await makeSession()))
  if (id !== undefined) return <Chat id={id} create={create} />
  return (
    <p className="hint">{loading ? 'Loading…' : <button onClick={() => void create()}>New chat</button>}</p>
  )
}

function Chat({ id, create }: { id: string; create: () => Promise<void> }) {
  const [error, setError] = useState<unknown>()
  const session = useSession(id)
  const inbox = useInbox()
  const archived = useInbox({ show: 'archived' })
  const runtime = useExternalStoreRuntime({
    ...toExternalStore(session, { onError: setError }),
    adapters: {
      threadList: toThreadList(inbox, {
        threadId: id,
        archived,
        onSwitchToThread: open,
        onSwitchToNewThread: create,
      }),
    },
    extras: session, // for what assistant-ui has no function for
  })
  const { head, markRead } = session
  useEffect(() => void (head > 0 && markRead().catch(() => undefined)), [head, markRead])
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Threads />
      <main>
        {error instanceof Error && (
          <p className="banner" role="alert">
            {error.message} <button onClick={() => setError(undefined)}>Close</button>
          </p>
        )}
        <Thread />
      </main>
    </AssistantRuntimeProvider>
  )
}
