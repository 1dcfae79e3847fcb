// P2 on real rows, in any order of beats, looks, pauses, takeovers, burials and drains. A pod acts on what it saw last, however
// long ago that was. The test moves the clock of the pods by hand, and sets the clock of the database forward and back.
// The checks find two mutants: a take that sets its term from what it saw, and a burial that does not name its term.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import * as fc from 'fast-check'
import { decide, type Member, type View } from '../../src/fleet/election.ts'
import { createLink } from '../../src/fleet/link.ts'
import * as pods from '../../src/fleet/pods.ts'
import { createSilence, type Silence } from '../../src/fleet/silence.ts'
import { createTrust } from '../../src/fleet/trust.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { Query } from '../../src/store/database.ts'
import type { Term } from '../../src/store/leader.ts'
import { atEnd } from '../support/cleanup.ts'
import { manualClock } from '../support/clock.ts'
import { databaseFor } from '../support/database.ts'
import { stepClock } from '../support/fleet.ts'

const LIMITS = { beatMs: 1_000, ttlMs: 5_000 }
const PODS = 3
const HOUR_MS = 3_600_000
const steps = fc.array(
  fc.record({
    pod: fc.nat(PODS - 1),
    act: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('beat', 'look', 'follow') },
      { weight: 2, arbitrary: fc.constantFrom('bury', 'pass') },
      { weight: 1, arbitrary: fc.constantFrom('drain', 'forget', 'pass-long', 'forward', 'back') },
    ),
  }),
  { minLength: 20, maxLength: 60 },
)
type Step = { readonly pod: number; readonly act: string }
type Player = {
  id: number
  readonly trust: ReturnType<typeof createTrust>
  readonly silence: Silence
  view: View | undefined
  term: Term | undefined
}

function silentIn(view: View | undefined): readonly Member[] {
  return view?.members.filter(({ silentMs }) => silentMs > LIMITS.ttlMs) ?? []
}

/** Plays the steps, and returns what they broke, one sentence each. */
async function play(query: Query, order: readonly Step[]): Promise<string[]> {
  await query('delete from fleetline.pods')
  await query('update fleetline.leader set term = 0, pod = null')
  const [clock, broken, holders] = [manualClock(), [] as string[], new Map<number, number>()]
  const enter = async () => ({
    id: await pods.join(query, { name: 'test', version: '0', tracks: [] }),
    trust: createTrust(LIMITS, clock),
    silence: createSilence(clock),
    view: undefined,
    term: undefined,
  })
  const players: Player[] = []
  while (players.length < PODS) players.push(await enter())
  /** A write of a leader whose term is no longer the committed one must change nothing. */
  const asLeader = async (what: string, player: Player, write: (term: Term) => Promise<number>) => {
    if (!player.term) return
    const { term, leader } = await pods.look(query)
    const isCurrent = term === player.term.term && leader === player.term.pod
    if ((await write(player.term)) > 0 && !isCurrent) broken.push(`${what} under an old term`)
  }
  const follow = async (player: Player) => {
    if (!player.view) return
    const decision = decide(player.view, { id: player.id, mayJudge: player.trust.mayJudge() }, LIMITS.ttlMs)
    if (decision === 'give-up') await pods.giveUp(query, player.id)
    if (decision === 'lead') player.term = { term: player.view.term, pod: player.id }
    if (decision === 'take') player.term = await pods.take(query, player.id, player.view.term)
    if (decision === 'take' && player.term) {
      if (holders.has(player.term.term)) broken.push('two pods took one term')
      holders.set(player.term.term, player.id)
    }
  }
  const acts: Record<string, (player: Player, index: number) => Promise<unknown>> = {
    beat: async (player, index) => {
      if (await pods.beat(query, player.id)) player.trust.confirm(clock.monotonicMs())
      else players[index] = await enter() // buried: a new incarnation, which knows nothing
    },
    look: async (player) => {
      const seen = await pods.look(query)
      const silentMs = player.silence.saw(seen.members, clock.monotonicMs())
      player.view = { ...seen, members: seen.members.map((pod, n) => ({ ...pod, silentMs: silentMs[n]! })) }
    },
    follow,
    bury: (player) =>
      asLeader(
        'buried',
        player,
        async (term) => (await pods.bury(query, term, silentIn(player.view))).length,
      ),
    forget: (player) => asLeader('forgot', player, (term) => pods.forget(query, term)),
    drain: (player) => pods.drain(query, player.id),
    pass: () => clock.advance(LIMITS.beatMs),
    'pass-long': () => clock.advance(LIMITS.ttlMs + 1),
    forward: () => stepClock(query, HOUR_MS),
    back: () => stepClock(query, -HOUR_MS),
  }
  let lastTerm = 0
  for (const { pod, act } of order) {
    await acts[act]!(players[pod]!, pod)
    const { term, leader } = await pods.look(query)
    if (term < lastTerm) broken.push('a term fell')
    if (leader !== null && holders.get(term) !== leader) broken.push('a pod leads a term that another took')
    lastTerm = term
  }
  return broken
}

/** Runs each statement by itself on one connection, as the beats of a pod do. */
async function onLink(t: TestContext, work: (query: Query) => Promise<void>): Promise<void> {
  const link = createLink({ databaseUrl: await databaseFor(t), clock: systemClock(), statementMs: 60_000 })
  atEnd(t, () => link.close())
  await link.use(work)
}

test('P2: in any order of events each term has one leader, terms only grow, and an old term changes nothing', async (t) => {
  await onLink(t, (query) =>
    fc.assert(
      fc.asyncProperty(steps, async (order) => assert.deepEqual(await play(query, order), [])),
      { numRuns: 40 },
    ),
  )
})

const of = (pod: number, ...acts: readonly string[]): Step[] => acts.map((act) => ({ pod, act }))

test('P2: mutants that take a term from an old view, or bury under any term, are found', async (t) => {
  const bothSawNobody = [
    ...of(0, 'beat', 'look'),
    ...of(1, 'beat', 'look', 'pass-long', 'beat', 'look', 'follow'),
    ...of(0, 'follow'),
  ]
  const sixBeats = Array.from({ length: 6 }, () => of(1, 'beat', 'pass')).flat()
  // The second pod sees one beat of the first and then no more. The first wakes up with a view in which a third was silent.
  const wakesLate = [
    ...of(0, 'beat', 'look', 'follow'),
    ...of(1, 'beat', 'look', 'pass-long'),
    ...of(0, 'look'),
    ...sixBeats,
    ...of(1, 'look', 'follow', 'beat'),
    ...of(0, 'bury'),
  ]
  await onLink(t, async (query) => {
    for (const order of [bothSawNobody, wakesLate]) assert.deepEqual(await play(query, order), [])
    const blindTake: Query = (text, values) =>
      query(
        text.replace('term = l.term + 1', 'term = $2 + 1').replace('where l.term = $2 and', 'where'),
        values,
      )
    assert.deepEqual(await play(blindTake, bothSawNobody), ['two pods took one term'])
    const anyTerm: Query = (text, values) =>
      query(text.replace('l.term = $1 and l.pod = $2', 'l.term >= $1 and l.pod >= $2'), values)
    assert.deepEqual(await play(anyTerm, wakesLate), ['buried under an old term'])
  })
})
