// What a user sees of a session (S23). A key sees everything. A user does not see what an application has told the agent in
// system messages, the names of pods, or why an agent failed: that text may name URLs. A system message stays in its place,
// empty, because seqs have no gaps.
import { ERROR_CODES, type ExportLine, type InboxItem, type Item, type Turn } from '@fleetline/protocol'
import type { Principal } from '../identity/principal.ts'
import type { Nameless } from '../session/follow.ts'

const FAILED = 'The reply has failed.'
const OWN_CODE = /^(?:agent_[a-z]+|later)$/

export function itemsFor<Seen extends Pick<Item, 'role' | 'parts' | 'metadata'>>(
  principal: Principal | null,
  items: readonly Seen[],
): readonly Seen[] {
  return principal?.user ? items.map((item) => (item.role === 'system' ? emptied(item) : item)) : items
}

function emptied<Seen extends Pick<Item, 'parts' | 'metadata'>>(item: Seen): Seen {
  return { ...item, parts: [], ...(item.metadata && { metadata: {} }) }
}

/** The preview of a system message is empty, too. */
export function inboxItemsFor(
  principal: Principal | null,
  items: readonly InboxItem[],
): readonly InboxItem[] {
  if (!principal?.user) return items
  return items.map((item) =>
    item.preview?.role === 'system' ? { ...item, preview: { ...item.preview, text: '' } } : item,
  )
}

export function turnFor(principal: Principal | null, turn: Turn): Turn {
  if (!principal?.user) return turn
  const { error, waitsFor } = turn
  return {
    ...turn,
    pod: null,
    error: error && { code: codeFor(error.code), message: FAILED },
    waitsFor: waitsFor && codeFor(waitsFor),
  }
}

/** Code of an app may throw any code, such as `ECONNREFUSED`. */
function codeFor(code: string): string {
  return Object.hasOwn(ERROR_CODES, code) || OWN_CODE.test(code) ? code : 'failed'
}

/** A summary may say what the application has told the agent. */
export function exportLinesFor(
  principal: Principal | null,
  lines: readonly ExportLine[],
): readonly ExportLine[] {
  if (!principal?.user) return lines
  return lines.flatMap((line) => {
    if (line.type === 'summary') return []
    return line.type === 'message' && line.role === 'system' ? [emptied(line)] : [line]
  })
}

export function frameFor(principal: Principal | null, frame: Nameless): Nameless {
  if (frame.type === 'messages') return { ...frame, items: itemsFor(principal, frame.items) }
  return frame.type === 'turn' ? { ...frame, turn: turnFor(principal, frame.turn) } : frame
}
