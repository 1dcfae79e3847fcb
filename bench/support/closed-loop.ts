// Writers in a closed loop: each has one message under way and sends the next when it is acknowledged.
import { setTimeout as pause } from 'node:timers/promises'

export type Acked = { readonly session: string; readonly id: string; readonly seq: number }
/** Resolves to the seq. */
type Send = (session: string, id: string) => Promise<number>

type Loop = {
  readonly sessions: readonly string[]
  /** One for each writer. */
  readonly senders: readonly Send[]
  readonly warmMs: number
  readonly measuredMs: number
  /** Begins every message id, so that no two loops share one. */
  readonly prefix: string
}

export type Measured = {
  readonly rate: number
  readonly latenciesMs: readonly number[]
  /** Includes those of the warm-up. */
  readonly acked: readonly Acked[]
}

export async function closedLoop({ sessions, senders, warmMs, measuredMs, prefix }: Loop): Promise<Measured> {
  const [acked, latenciesMs] = [[] as Acked[], [] as number[]]
  let [fromMs, untilMs] = [Infinity, Infinity]
  const write = async (send: Send, writer: number) => {
    for (let n = 0; performance.now() < untilMs; n += 1) {
      const session = sessions[Math.floor(Math.random() * sessions.length)]!
      const [id, sentMs] = [`${prefix}-${writer}-${n}`, performance.now()]
      acked.push({ session, id, seq: await send(session, id) })
      const nowMs = performance.now()
      if (nowMs >= fromMs && nowMs < untilMs) latenciesMs.push(nowMs - sentMs)
    }
  }
  const all = Promise.all(senders.map(write))
  await Promise.race([pause(warmMs), all]) // `all` ends early only by failing
  fromMs = performance.now()
  await Promise.race([pause(measuredMs), all])
  untilMs = performance.now()
  await all
  return { rate: latenciesMs.length / ((untilMs - fromMs) / 1000), latenciesMs, acked }
}
