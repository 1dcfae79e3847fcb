// As many followers as a pod accepts read a log of large messages, a little now and then, and come back when they are
// disconnected. The memory of the pod stays within its settings, and one reader that reads all the time is served. The speed and
// the cost of a follower are figures. The pod and its followers have a network of their own in which the kernel buffers little
// for a socket, so bytes that nobody reads stay in the pod.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { databaseFor } from '../support/database.ts'
import { needPrograms } from '../support/debian.ts'
import { eventually } from '../support/eventually.ts'
import { ASKABLE, memoryOf } from '../support/pod-memory.ts'
import { linesOf, NO_KEYS } from '../support/pods.ts'
import { CLI, runProgram } from '../support/program.ts'
import { proofSize } from '../support/proof-size.ts'
import { idOf, sessionFor } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'

const FOLLOWERS = proofSize({ full: 9_990, quick: 1_000 })
const WATCH_MS = proofSize({ full: 120_000, quick: 30_000 })
const MB = 1024 * 1024
const FOLLOW_BYTES = proofSize({ full: 128 * MB, quick: 16 * MB })
const [MESSAGES, MESSAGE_BYTES] = [500, 40_000]
// Beside a thousand followers the reader gets all of the log. Beside ten thousand a pod of one core has time for only a part.
const SERVED_BYTES = proofSize({ full: 10 * MESSAGE_BYTES, quick: MESSAGES * MESSAGE_BYTES })
/** What a follower costs besides its bytes: its socket, its request, its place. */
const EACH = 48 * 1024

const OWN_NETWORK = [
  'unshare',
  '--net',
  'sh',
  '-c',
  'ip link set lo up && echo 4096 16384 65536 > /proc/sys/net/ipv4/tcp_wmem && exec "$@"',
  'sh',
  process.execPath,
  '--conditions=fleetline-source',
] as const

test(`with ${FOLLOWERS} slow followers the heap stays within the settings, and a reader is served`, async (t) => {
  needPrograms({ python3: 'python3', ip: 'iproute2', unshare: 'util-linux', nsenter: 'util-linux' })
  const url = await databaseFor(t)
  const settings = { DATABASE_URL: url, FLEETLINE_FOLLOW_BYTES: `${FOLLOW_BYTES}` }
  const program = runProgram(t, CLI, {
    args: ['start'],
    env: { ...ASKABLE, ...NO_KEYS, ...settings },
    by: OWN_NETWORK,
  })
  const isReady = () => assert.ok(linesOf(program).some(({ msg }) => msg === 'ready'))
  await eventually(isReady, { what: 'the pod', details: program.output })
  const database = await openDatabase(t, url)
  const session = await sessionFor(database)
  await database.transaction(async (query) => {
    await query(
      `insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
       select now(), tenant, id, n, gen_random_uuid(), n, 0, 0, n::text,
              jsonb_build_object('parts', jsonb_build_array(jsonb_build_object('type', 'text', 'text', repeat('x', $2))))
         from fleetline.sessions, generate_series(1, $1) n`,
      [MESSAGES, MESSAGE_BYTES],
    )
    await query('update fleetline.sessions set head = $1', [MESSAGES])
  })
  const before = await memoryOf(program)
  const readers = runProgram(t, join(import.meta.dirname, '../support/trickle.py'), {
    args: [`http://127.0.0.1:4400/v1/sessions/${idOf(session)}/events`, String(FOLLOWERS)],
    by: ['nsenter', `--net=/proc/${program.pid}/ns/net`, 'python3'],
  })
  type Said = {
    readonly open: number
    readonly closed: number
    readonly taken: number
    readonly resumed: number
    readonly s: number
  }
  const said = () => JSON.parse(readers.printed().trim().split('\n').at(-1)!) as Said
  await eventually(() => assert.ok(said().open > FOLLOWERS * 0.9), {
    what: 'the followers',
    patienceMs: 300_000,
    details: readers.output,
  })
  let most = before
  for (const endMs = performance.now() + WATCH_MS; performance.now() < endMs;) {
    const now = await memoryOf(program)
    if (now.heapUsed + now.external > most.heapUsed + most.external) most = now
    await pause(10_000)
  }
  const isServed = () => assert.ok(said().taken > SERVED_BYTES)
  await eventually(isServed, {
    what: 'the reader to be served',
    patienceMs: 240_000,
    details: () => readers.output().slice(-500),
  })
  const held = most.heapUsed + most.external - before.heapUsed - before.external
  t.diagnostic(`figure followers ${said().open}`)
  t.diagnostic(`figure followers_closed ${said().closed}`)
  t.diagnostic(`figure held_mb ${held / MB}`)
  t.diagnostic(`figure rss_before_mb ${before.rss / MB}`)
  t.diagnostic(`figure rss_mb ${most.rss / MB}`)
  t.diagnostic(`figure reader_mb ${said().taken / MB}`)
  t.diagnostic(`figure reader_s ${said().s}`)
  t.diagnostic(`figure reader_came_back ${said().resumed}`)
  assert.ok(held < FOLLOW_BYTES + FOLLOWERS * EACH, `${held / MB} MB`)
})
