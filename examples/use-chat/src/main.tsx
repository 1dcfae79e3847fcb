import { createRoot } from 'react-dom/client'
import { Chat } from './chat.tsx'

// The address names the chat. A chat that does not exist yet begins with its first message.
location.hash ||= crypto.randomUUID()
createRoot(document.querySelector('#root')!).render(<Chat id={location.hash.slice(1)} />)
addEventListener('hashchange', () => location.reload())
