// Sends hints, on a connection of its own. A hint may be lost, so its commit waits for neither disk nor standby.
import type pg from 'pg'
import type { Service } from '../lib/lifecycle.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { closeNow, connect } from './connection.ts'
import type { Echoes } from './echoes.ts'

export const HINT_CHANNEL = 'fleetline_hints'
export const HINT_NAME = 'fleetline hints'

type Sender = Service & { send(topic: string): void }
type Deps = {
  readonly databaseUrl: string
  readonly metrics: Metrics
  readonly echoes: Pick<Echoes, 'next' | 'sent'>
}

const SEND_MS = 5_000
const MAX_TOPICS = 120 // NOTIFY carries less than 8,000 bytes, and a topic has up to 64

// Set for this transaction only: behind a pooler, another client may use the connection next.
const NOTIFY = `select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`

export function createSender({ databaseUrl, metrics, echoes }: Deps): Sender {
  const topics = new Set<string>()
  let [client, sending, stopped] = [
    undefined as pg.Client | undefined,
    undefined as Promise<void> | undefined,
    false,
  ]
  const drain = async () => {
    while (topics.size > 0 && !stopped) {
      const batch = [...topics].slice(0, MAX_TOPICS)
      batch.forEach((topic) => topics.delete(topic))
      try {
        client ??= await connect({ databaseUrl, name: HINT_NAME, connectMs: SEND_MS, statementMs: SEND_MS })
        await client.query(NOTIFY, [HINT_CHANNEL, [echoes.next(), ...batch].join(' ')])
        echoes.sent()
        metrics.count('hintsSent', { outcome: 'sent' }, batch.length)
      } catch {
        metrics.count('hintsSent', { outcome: 'lost' }, batch.length)
        if (client) closeNow(client) // these hints are lost; listeners also poll
        client = undefined
      }
    }
    sending = undefined
  }
  return {
    name: 'hints.sender',
    start: async () => undefined,
    send(topic) {
      if (!/^[\w:.-]{1,64}$/.test(topic)) throw new RangeError(`Not a topic: ${topic}`)
      topics.add(topic)
      sending ??= drain()
    },
    stop: async () => {
      stopped = true
      await sending
      if (client) closeNow(client)
    },
  }
}
