// The chats of the user, and the one that the address of the page names.
import { useConnection, useInbox } from '@fleetline/client/react'
import { useSyncExternalStore } from 'react'
import { Chat } from './chat.tsx'
import { makeSession } from './token.ts'

const LOST = 'Reconnecting… What you write is sent as soon as possible.'
const onHash = (listener: () => void) => {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}

export function App() {
  const { sessions, loading, hasMore, loadMore } = useInbox()
  const connection = useConnection()
  const open = useSyncExternalStore(onHash, () => location.hash.slice(1)) || sessions[0]?.session
  const create = async () => {
    const unused = sessions.find(({ head }) => head === 0)
    location.hash = unused?.session ?? (await makeSession().catch(alert)) ?? ''
  }
  return (
    <>
      <nav aria-label="Chats">
        <button disabled={connection !== 'live'} onClick={() => void create()} children="New chat" />
        {sessions.map(({ session, title, preview, unread, turn }) => (
          <a key={session} href={`#${session}`} aria-current={session === open && 'page'}>
            <b>{title ?? preview?.text ?? 'New chat'}</b>
            <small>{turn ? 'Replying…' : preview?.text}</small>
            {unread > 0 && session !== open && <i aria-label={`${unread} unread`}>{unread}</i>}
          </a>
        ))}
        {hasMore && <button onClick={() => void loadMore()}>More chats</button>}
      </nav>
      <main>
        {/stale|offline/.test(connection) && <p className="banner" role="status" children={LOST} />}
        {connection === 'refused' && <p className="banner">You are logged out. Reload the page.</p>}
        {open ? <Chat key={open} id={open} /> : !loading && <p className="hint">There is no chat yet.</p>}
      </main>
    </>
  )
}
