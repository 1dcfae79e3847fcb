// fleetline inbox: prints a page, or follows.
import type { InboxFrame, InboxPreview } from '@fleetline/protocol'
import { Rejected } from '../../errors.ts'
import { inboxSchema } from '../../gateway/inbox-schemas.ts'
import { systemClock } from '../../lib/clock.ts'
import { systemRandom } from '../../lib/random.ts'
import { apiOf, queryOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { followInbox } from '../frames.ts'
import { EXIT, type Output } from '../output.ts'
import { stopSignal } from '../stop-signal.ts'

const COLUMNS = ['session', 'alias', 'title', 'unread', 'attention', 'updatedAt', 'preview'] as const

export async function inbox(call: CommandCall): Promise<number> {
  const { flags, options, output } = call
  if (options['follow'] === true) return follow(call)
  const path = `/inbox${queryOf(options, ['user', 'show', 'limit', 'cursor'])}`
  const page = await apiOf({ flags, output }).ask({ method: 'GET', path, answer: inboxSchema })
  const { items } = page
  output.list(COLUMNS, output.isJson ? items : items.map((item) => ({ ...item, preview: previewText(item) })))
  const { unreadTotal, attentionTotal, next } = page
  output.note(
    `Sessions with unread messages: ${unreadTotal}. Sessions that need attention: ${attentionTotal}.`,
  )
  if (output.isJson) output.one({ unreadTotal, attentionTotal, next })
  else if (next !== null) output.note(`There are more sessions. To see them, add --cursor ${next}`)
  return EXIT.done
}

async function follow({ flags, options, output }: CommandCall): Promise<number> {
  for (const name of ['cursor', 'show'])
    if (options[name] !== undefined)
      throw new Rejected('invalid', `--${name} cannot be used with --follow: leave one of them out`)
  const [clock, random] = [systemClock(), systemRandom()]
  const { openEvents } = apiOf({ flags, output })
  const onLost = () =>
    output.note('The stream ended or was lost. Reconnecting; the newest sessions are printed again.')
  const stopping = new AbortController()
  void stopSignal().first.then(() => stopping.abort())
  const from = { path: `/inbox/events${queryOf(options, ['user', 'limit'])}`, isKnown: false }
  for await (const frame of followInbox({ openEvents, clock, random, onLost }, from, stopping.signal))
    show(output, frame)
  return EXIT.done
}

function show(output: Output, frame: InboxFrame): void {
  if (output.isJson) return output.one(frame)
  for (const item of frame.items) {
    const row: Record<string, unknown> = { ...item, preview: previewText(item) }
    output.next(
      COLUMNS.map((column) => row[column]),
      row,
    )
    if (item.archived) output.note(`Session ${item.session} is archived.`)
  }
  for (const { session } of frame.removed)
    output.note(`Session ${session} was removed: it was erased, or the user is no longer a member.`)
}

function previewText({ preview }: { readonly preview: Pick<InboxPreview, 'text'> | null }): string {
  return preview?.text ?? ''
}
