// The list of threads: the sessions of the user.
import { ThreadListItemPrimitive, ThreadListPrimitive, useAui, useAuiState } from '@assistant-ui/react'
import type { InboxItem } from '@fleetline/protocol'

export function Threads() {
  const hasArchived = useAuiState(({ threads }) => threads.archivedThreadIds.length > 0)
  return (
    <ThreadListPrimitive.Root className="threads" aria-label="Chats">
      <ThreadListPrimitive.New>New chat</ThreadListPrimitive.New>
      <ThreadListPrimitive.Items>{() => <Item />}</ThreadListPrimitive.Items>
      {hasArchived && (
        <details>
          <summary>Archived</summary>
          <ThreadListPrimitive.Items archived>{() => <Item />}</ThreadListPrimitive.Items>
        </details>
      )}
    </ThreadListPrimitive.Root>
  )
}

function Item() {
  const { threadListItem } = useAui()
  const item = useAuiState((state) => state.threadListItem)
  const { preview, unread = 0, turn } = (item.custom?.['fleetline'] ?? {}) as Partial<InboxItem>
  const rename = () => {
    const title = prompt('Title', item.title)?.trim()
    if (title) void threadListItem.rename(title)
  }
  return (
    <ThreadListItemPrimitive.Root className="item">
      <ThreadListItemPrimitive.Trigger className="open">
        <b>
          <ThreadListItemPrimitive.Title fallback={preview?.text ?? 'New chat'} />
        </b>
        <small>{turn ? 'Replying…' : unread > 0 ? `${unread} unread` : item.title && preview?.text}</small>
      </ThreadListItemPrimitive.Trigger>
      <span className="actions">
        <button aria-label="Rename" onClick={rename} children="✎" />
        {item.status === 'archived' ? (
          <ThreadListItemPrimitive.Unarchive aria-label="Bring back" children="↩" />
        ) : (
          <ThreadListItemPrimitive.Archive aria-label="Archive" children="×" />
        )}
      </span>
    </ThreadListItemPrimitive.Root>
  )
}
