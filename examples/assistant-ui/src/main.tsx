import { createClient } from '@fleetline/client'
import { indexedDbOutbox } from '@fleetline/client/indexeddb'
import { FleetlineProvider } from '@fleetline/client/react'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { App } from './app.tsx'
import { token } from './token.ts'

// One client for all sessions. If the page is closed before a message is stored, the next page sends the message.
const client = createClient({ token, outbox: indexedDbOutbox({ user: 'ada' }) })

createRoot(document.querySelector('#root')!).render(
  <StrictMode>
    <FleetlineProvider client={client}>
      <App />
    </FleetlineProvider>
  </StrictMode>,
)
