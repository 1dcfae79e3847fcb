// Keeps the messages of an outbox beyond the page: implemented by `indexedDbOutbox`.
import type { Message } from '@fleetline/protocol'

export type Kept = {
  /** Keeps a message of this page. The session is named as it was opened. */
  readonly keep: (session: string, message: Message) => void
  /** Forgets a message that is stored or was discarded. */
  readonly forget: (session: string, id: string) => void
  /** Calls `adopt` with messages that belong to no open page, now and whenever another page is closed. From then on they belong to this
   *  page. Ends when the signal is aborted. */
  readonly watch: (
    adopt: (session: string, messages: readonly Message[]) => void,
    signal: AbortSignal,
  ) => void
}
