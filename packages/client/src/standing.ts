// What a device shows of a connection. It is `stale` when it was just lost, and `offline` after 5 s.
//
//   connecting ──▶ live ◀──▶ stale ──▶ offline ──▶ live
//   any ──▶ refused, finally
import type { Clock } from './clock.ts'

export type Connection = 'connecting' | 'live' | 'stale' | 'offline' | 'refused'
export type Standing = {
  readonly isLive: () => boolean
  readonly live: () => void
  readonly lost: () => void
  readonly end: () => void
}

const OFFLINE_MS = 5_000

/** Reports each change. */
export function standingOf(clock: Clock, onConnection: (connection: Connection) => void): Standing {
  let [now, found]: [Connection, AbortController] = ['connecting', new AbortController()]
  const become = (next: Connection) => {
    if (next !== now) onConnection((now = next))
  }
  const seek = () => {
    found = new AbortController()
    clock.sleep(OFFLINE_MS, found.signal).then(
      () => become('offline'),
      () => undefined, // live again, or ended
    )
  }
  seek()
  return {
    isLive: () => now === 'live',
    live: () => {
      found.abort()
      become('live')
    },
    lost: () => {
      if (now !== 'live') return
      become('stale')
      seek()
    },
    end: () => found.abort(),
  }
}
