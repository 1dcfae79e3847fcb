/** @jsxImportSource react */
// A page with the hooks of @fleetline/client/react, as an application would build it. The test moves it through `globalThis.stage`, and
// reads there what was rendered.
import { createClient, type Message, type Snapshot } from '@fleetline/client'
import { FleetlineProvider, useClient, useConnection, useInbox, useSession } from '@fleetline/client/react'
import {
  memo,
  Profiler,
  startTransition,
  StrictMode,
  useEffect,
  useState,
  type FunctionComponent,
} from 'react'
import { createRoot } from 'react-dom/client'

const SLOW = 60
const SLOW_MS = 8

/** How often each component was rendered. A message is counted by its text. */
const renders: Record<string, number> = {}
/** What the slow components saw, in the order in which they were rendered. */
const seen: { index: number; head: number }[] = []
/** The slow components that are on the page. */
const shown = new Set<number>()
/** The heads on the page after each commit that showed more than one. */
const torn: string[] = []
/** The session objects of each picture of a chat. */
const sessions = new Set<object>()

const count = (name: string) => (renders[name] = (renders[name] ?? 0) + 1)

function textOf({ parts }: Message): string {
  return parts.map((part) => (typeof part['text'] === 'string' ? part['text'] : '')).join('')
}

const Row = memo(function Row({ message }: { message: Message }) {
  count(`${message.seq ?? message.delivery}`)
  return <li data-delivery={message.delivery}>{textOf(message)}</li>
})

function Chat() {
  const { messages, head, status, send, discard, loadOlder, hasOlder } = useSession('talk', { tail: 5 })
  const connection = useConnection()
  const client = useClient()
  useEffect(() => void sessions.add(client.session('talk'))) // the hook has opened it
  count('list')
  return (
    <section data-status={status} data-connection={connection} data-head={head} data-older={hasOlder}>
      <ol>
        {messages.map((message) => (
          <Row key={message.id} message={message} />
        ))}
      </ol>
      <button onClick={() => send('from the page')}>Send</button>
      <button onClick={() => send({ parts: [] })}>Send nothing</button>
      <button onClick={() => messages.forEach(({ id }) => discard(id))}>Discard</button>
      <button onClick={() => void loadOlder()}>Older</button>
    </section>
  )
}

/** As hot reload does when it cannot keep the state of a component. */
function NewChat() {
  return Chat()
}

function Inbox() {
  const { sessions: found, loading } = useInbox({ user: 'ada' })
  return <nav data-loading={loading}>{found.map(({ title }) => title).join(', ')}</nav>
}

/** Takes long until it is on the page, so that messages arrive between two components. */
function Slow({ index }: { index: number }) {
  const { head } = useSession('talk')
  useEffect(() => void shown.add(index), [index])
  const endMs = performance.now() + SLOW_MS
  while (!shown.has(index) && performance.now() < endMs);
  seen.push({ index, head })
  return <i className="head">{head}</i>
}

function checkHeads(): void {
  const heads = new Set(Array.from(document.querySelectorAll('.head'), (one) => one.textContent))
  if (heads.size > 1) torn.push(Array.from(heads).join(' '))
}

const VIEWS: Record<string, FunctionComponent> = {
  nothing: () => null,
  chat: Chat,
  'new chat': NewChat,
  inbox: Inbox,
  'strict chat': () => (
    <StrictMode>
      <Chat />
    </StrictMode>
  ),
  'slow heads': () => Array.from({ length: SLOW }, (_, index) => <Slow key={index} index={index} />),
}

let show: (view: string) => void
function App() {
  const [view, setView] = useState('nothing')
  show = setView
  const View = VIEWS[view]!
  return (
    <Profiler id="page" onRender={checkHeads}>
      <View />
    </Profiler>
  )
}

const client = createClient({ url: document.body.dataset['gateway']! })
createRoot(document.querySelector('main')!).render(
  <FleetlineProvider client={client}>
    <App />
  </FleetlineProvider>,
)

export type Stage = {
  readonly renders: Record<string, number>
  readonly seen: { index: number; head: number }[]
  readonly torn: string[]
  readonly countSessions: () => number
  readonly get: () => Snapshot
  readonly show: (view: string, how?: 'as a transition') => void
}
const stage: Stage = {
  renders,
  seen,
  torn,
  countSessions: () => sessions.size,
  get: () => client.session('talk').get(),
  show: (view, how) => (how ? startTransition(() => show(view)) : show(view)),
}
Object.assign(globalThis, { stage })
