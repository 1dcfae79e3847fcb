// A door with a socket of its own, without PostgreSQL. At the end of a test it checks that no socket is counted any more, and that no timer
// of one is left.
import assert from 'node:assert/strict'
import { z } from 'zod'
import type { SocketPeer } from '../../src/door/socket-route.ts'
import { NATIVE, socketCommand, socketRoute } from '../../src/door/socket-route.ts'
import { createDoor } from '../../src/door/server.ts'
import { Rejected, Retry } from '../../src/errors.ts'
import type { Credentials } from '../../src/identity/callers.ts'
import type { Principal } from '../../src/identity/principal.ts'
import type { Right } from '../../src/identity/scopes.ts'
import { atEnd, type Scope } from './cleanup.ts'
import type { manualClock } from './clock.ts'
import { depsOf } from './door.ts'
import { eventually } from './eventually.ts'

type User = { readonly tenant?: number; readonly endMs?: number; readonly rights?: readonly Right[] }
type Does = {
  check: () => Promise<void>
  recheck: (principal: Principal) => Promise<void>
  recheckSide: () => Promise<void>
}
type Side = { recheck: () => Promise<void> }
type Changed = Partial<Omit<ReturnType<typeof depsOf>, 'clock' | 'limits' | 'routes'>> & {
  readonly clock?: ReturnType<typeof manualClock>
  readonly limits?: Partial<ReturnType<typeof depsOf>['limits']>
  readonly routes?: Parameters<typeof depsOf>[0]
}
export type SocketDoor = Awaited<ReturnType<typeof socketDoorOn>>

export const ECHO = {
  summary: 'Answers with its text.',
  access: { audience: 'client', tenant: 'caller', scope: 'sessions:write', right: 'send' },
  frame: z.object({ session: z.string().optional(), text: z.string() }),
} as const

export function userNamed(id: string, { tenant = 7, endMs, rights = ['send'] }: User = {}): Principal {
  const user = { id, rights: new Set(rights), sessions: undefined, issuedMs: 0 }
  return { tenant, scopes: new Set(), key: null, user: { ...user, endMs: endMs ?? Date.now() + 600_000 } }
}

/** `callers` know these tokens, tickets and keys by name. */
export async function socketDoorOn(t: Scope, changed: Changed = {}) {
  const usual = depsOf(changed.routes ?? [])
  const known = new Map<string, Principal>([['ada', userNamed('ada')]])
  const gates = new Map<string, PromiseWithResolvers<void>>()
  const gateOf = (name: string) => {
    const gate = gates.get(name) ?? Promise.withResolvers<void>()
    gates.set(name, gate)
    return gate
  }
  const seen = {
    running: 0,
    most: 0,
    ran: [] as string[],
    told: 0,
    credentials: [] as Credentials[],
    peers: [] as SocketPeer[],
  }
  /** May be replaced by a test. */
  const does: Does = {
    check: async () => undefined,
    recheck: async () => undefined,
    recheckSide: async () => undefined,
  }
  const run = async (text: string) => {
    seen.running += 1
    seen.most = Math.max(seen.most, seen.running)
    await gates.get(text)?.promise
    seen.running -= 1
    seen.ran.push(text)
    return { frame: { type: 'ack', text } }
  }
  const route = socketRoute<Side>({
    path: '/v1/socket',
    summary: 'A socket of a test.',
    dialect: NATIVE,
    frames: z.discriminatedUnion('type', [
      z.object({ type: z.literal('ack'), cid: z.string(), text: z.string().optional() }),
      z.object({ type: z.literal('news'), n: z.int(), text: z.string().optional() }),
    ]),
    commands: {
      echo: socketCommand({ ...ECHO, handle: (_: Side, { text }) => run(text) }),
      fail: socketCommand({
        ...ECHO,
        handle: async (_: Side, { text }) => {
          if (text === 'rejected') throw new Rejected('conflict', 'It is taken')
          if (text === 'retry') throw new Retry('unavailable', 'told nobody', { afterMs: 0.5 + 1 })
          throw new Error('told nobody')
        },
      }),
      odd: socketCommand({
        ...ECHO,
        handle: async () => ({ frame: { type: 'odd' }, onAnswered: () => void (seen.told += 1) }),
      }),
      keyed: socketCommand({
        ...ECHO,
        access: { audience: 'key', tenant: 'caller', scope: 'sessions:write' },
        handle: (_: Side, { text }) => run(text),
      }),
    },
    open: (peer) => {
      seen.peers.push(peer)
      return { recheck: () => does.recheckSide() }
    },
  })
  const { clock, limits, ...rest } = changed
  const door = createDoor({
    ...usual,
    callers: {
      callerOf: async (credentials) => {
        seen.credentials.push(credentials)
        await does.check()
        const principal = known.get(
          credentials.authorization?.slice('Bearer '.length) ?? credentials.ticket ?? '',
        )
        if (!principal) throw new Rejected('unauthenticated', 'Nobody knows this token')
        return principal
      },
      recheck: (principal) => does.recheck(principal),
    },
    ...rest,
    ...(clock && { clock }),
    limits: { ...usual.limits, ...limits },
    sockets: [route],
  })
  const { metrics } = { ...usual, ...rest }
  const read = async (pattern: RegExp) => Number(pattern.exec(await metrics.text())?.[1] ?? 0)
  const openSockets = () => read(/^fleetline_sockets (\d+)/m)
  atEnd(t, async () => {
    const check = async () => assert.equal(await openSockets(), 0)
    await eventually(check, { what: 'no socket to be counted', patienceMs: 5_000 })
    await door.stop()
    await eventually(() => assert.equal(clock?.sleepers ?? 0, 0), { what: 'no timer', patienceMs: 5_000 })
  })
  await door.start()
  const at = `http://localhost:${door.port()}`
  return {
    door,
    at,
    port: door.port(),
    known,
    seen,
    does,
    gateOf,
    openSockets,
    closedWith: (code: number | string) =>
      read(new RegExp(`^fleetline_sockets_closed_total\\{code="${code}"\\} (\\d+)`, 'm')),
  }
}
