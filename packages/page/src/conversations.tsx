// The newest conversations of the person, each with its number of unread messages. A click opens one, on both devices.
import type { InboxSnapshot } from '@fleetline/client'
import { isNamed, type Device, type DeviceView } from './device.ts'

const SHOWN = 5

type Props = { readonly device: Device; readonly view: Pick<DeviceView, 'conversations'> }

export function Conversations({ device, view: { conversations } }: Props) {
  return (
    <nav class="conversations" aria-label={`Conversations on Ada's ${device.name}`}>
      {conversations.slice(0, SHOWN).map((one) => (
        <Conversation key={one.session} one={one} isOpen={isNamed(one, device.id)} />
      ))}
    </nav>
  )
}

type ItemProps = { readonly one: InboxSnapshot['sessions'][number]; readonly isOpen: boolean }

function Conversation({ one: { session, alias, title, unread, preview }, isOpen }: ItemProps) {
  const hasNews = unread > 0 && !isOpen
  return (
    <a
      href={`?session=${alias ?? session}`}
      aria-current={isOpen ? 'page' : undefined}
      title={preview?.text || undefined}
    >
      {title ?? alias ?? session.slice(-6)}
      {hasNews && <b aria-label={`${unread} unread`}>{unread}</b>}
    </a>
  )
}
