// `fleetline agents check`: an agent that does everything as it should passes every check, and each broken agent is named by its fault.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { checkAgent, Rejected, type AgentCheck } from '../../src/index.ts'
import { createAgentCheck } from '../../src/agent-check/check-agent.ts'
import { CHECKS } from '../../src/agent-check/checks.ts'
import { problemOf } from '../../src/agent-check/problem.ts'
import { judgeStream } from '../../src/agent-check/stream.ts'
import { AgentFault } from '../../src/agent/fault.ts'
import { AGENTS } from '../../src/cli/agents.ts'
import { EXIT } from '../../src/cli/output.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { BROKEN, checkedAgent, GOOD, GOOD_IN_JSON, SECRET, TOOL_MESSAGE } from '../support/checked-agents.ts'
import { atEnd } from '../support/cleanup.ts'
import { typing } from '../support/terminal.ts'

const ALL = { secret: SECRET, toolMessage: TOOL_MESSAGE, compact: true }
const NAMES = CHECKS.map(({ name }) => name)

async function allOf(checks: AsyncIterable<AgentCheck>): Promise<AgentCheck[]> {
  const all: AgentCheck[] = []
  for await (const one of checks) all.push(one)
  return all
}
const stateOf = ({ name, state }: AgentCheck) => `${name} ${state}`
const sentenceOf = ({ found, remedy }: AgentCheck) => `${found}. ${remedy}`

test('a good agent passes every check, and so does one that answers with JSON', async (t) => {
  const { url, check } = await checkedAgent(t, { serve: GOOD })
  const found = await allOf(check(url, ALL))
  assert.deepEqual(
    found.map(stateOf),
    NAMES.map((name) => `${name} ok`),
    JSON.stringify(found),
  )
  for (const one of found) assert.deepEqual([one.remedy, one.code], [undefined, undefined])

  const inJson = await checkedAgent(t, { serve: GOOD_IN_JSON })
  const states = (await allOf(inJson.check(inJson.url, { secret: SECRET }))).map(stateOf)
  const [hello, stream, slowReader, ...others] = states
  assert.deepEqual([hello, stream, slowReader], ['hello ok', 'stream ok', 'slow-reader skipped'])
  assert.ok(!others.some((state) => state.endsWith('failed') || state.endsWith('warning')), String(others))
})

for (const [what, { check: name, state = 'failed', says, timeoutMs, ...agent }] of Object.entries(BROKEN))
  test(`an agent ${what}: ${name} ${state}`, async (t) => {
    const { url, check } = await checkedAgent(t, agent)
    const found = await allOf(check(url, { ...ALL, timeoutMs }))
    const isFault = (one: AgentCheck) => one.state === 'failed' || one.state === 'warning'
    assert.deepEqual(found.filter(isFault).map(stateOf), [`${name} ${state}`], JSON.stringify(found))
    assert.match(sentenceOf(found.find(isFault)!), says)
    assert.deepEqual(
      found.map((one) => one.name),
      NAMES,
    )
  })

test('what an event quotes is not taken for what to do about it', () => {
  const head = { status: 200, type: 'text/event-stream', encoding: 'identity', location: undefined }
  const problem = (message: string, remedy?: string) => {
    const fault = new AgentFault('agent_protocol', message, { isFinal: true, quotesAgent: true, remedy })
    return problemOf({ head, fault, protocol: 'ag-ui', received: '', isKnown: true })!
  }
  const { found, remedy } = problem(
    'no call a. b is open. Send TOOL_CALL_START first',
    'Send TOOL_CALL_START first',
  )
  assert.deepEqual([found, remedy], ['no call a. b is open', 'Send TOOL_CALL_START first'])
  const quoted = problem('CUSTOM: name must be a string, but it is "a. b"')
  assert.equal(quoted.found, 'CUSTOM: name must be a string, but it is "a. b"')
  assert.match(quoted.remedy, /^Send the events of AG-UI in their order/)
})

test('words that came at once after a wait were held back; a model that thought, a fast agent and one without words were not', () => {
  const head = { status: 200, type: 'text/event-stream', encoding: 'identity', location: undefined }
  const words = (fromMs: number, stepMs: number) => Array.from({ length: 40 }, (_, n) => fromMs + n * stepMs)
  const cases = [
    ['warning', words(10_000, 1)],
    ['warning', words(600, 1)],
    ['warning', [3_000]],
    ['ok', words(10_000, 25)],
    ['ok', words(20, 0)],
    ['ok', words(20, 100)],
    ['ok', []],
  ] as const
  for (const [state, wordsMs] of cases) {
    const endMs = (wordsMs.at(-1) ?? 0) + 1
    assert.equal(judgeStream({ head, wordsMs, endMs }).state, state, String(wordsMs.slice(0, 2)))
  }
})

test('what is not valid is rejected before the agent is called; a signal ends the checks', async (t) => {
  const { url, check } = await checkedAgent(t, { serve: GOOD })
  const cases = [
    [() => check('ftp://example.com/', ALL), /url: must begin with http/],
    [() => check('http://user:word@example.com/', ALL), /url: must not hold a password/],
    [() => check(url, { secret: 'word' }), /secret: must be whsec_/],
    [() => check(url, { ...ALL, message: ' ' }), /message: must not be empty/],
    [() => check(url, { ...ALL, timeoutMs: 1 }), /timeoutMs: must be a number from 100 to 600000/],
  ] as const
  for (const [call, says] of cases)
    assert.throws(call, (error) => error instanceof Rejected && says.test(error.message))
  const reason = new Error('enough')
  await assert.rejects(allOf(checkAgent(url, { ...ALL, signal: AbortSignal.abort(reason) })), reason)
})

test('a URL at which no agent listens is named by what is wrong with it', async (t) => {
  const { url } = await checkedAgent(t, { serve: GOOD })
  const cases = [
    ['http://127.0.0.1:1/', /ECONNREFUSED\)\. Start the agent, and check that the URL/],
    [url.replace('http:', 'https:'), /\. Correct the scheme or the port of the URL/],
  ] as const
  for (const [at, says] of cases) {
    const [hello, ...others] = await allOf(checkAgent(at, { secret: SECRET }))
    assert.equal(hello!.code, 'unreachable')
    assert.match(sentenceOf(hello!), says)
    assert.ok(others.every(({ state }) => state === 'skipped'))
  }
})

test('checks that take too long end: the one under way has failed, the others are skipped', async (t) => {
  const tooLong = Promise.withResolvers<void>()
  const { url } = await checkedAgent(t, { serve: () => tooLong.resolve() })
  const clock = systemClock()
  const sleep = (ms: number, signal?: AbortSignal) =>
    ms === 1_800_000 ? tooLong.promise : clock.sleep(ms, signal)
  const check = createAgentCheck({ clock: { ...clock, sleep }, random: systemRandom(), pauseMs: 0 })
  const [hello, ...others] = await allOf(check(url, ALL))
  assert.equal(hello!.state, 'failed')
  for (const one of [hello!, ...others]) assert.match(one.found, /All checks together have taken 30 minutes/)
  assert.ok(others.every(({ state }) => state === 'skipped'))
})

function secretFile(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-secret-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const path = join(folder, 'secret')
  writeFileSync(path, `${SECRET}\n`)
  return path
}

test('fleetline agents check prints one object or line per check, and exits with 6 if one has failed', async (t) => {
  const type = typing(AGENTS, 'agents')
  const options = { secretFile: secretFile(t), message: 'a long answer', timeout: '60' }
  const good = await checkedAgent(t, { serve: GOOD_IN_JSON })
  const clean = await type({ json: true }, 'check', [good.url], options)
  assert.equal(clean.code, EXIT.done, clean.out)
  const rows = clean.out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as AgentCheck)
  const names = NAMES.filter((name) => name !== 'summary')
  assert.deepEqual(
    rows.map(({ name }) => name),
    names,
  )
  assert.equal(clean.err, '')

  const broken = await checkedAgent(t, BROKEN['without a route']!)
  const json = await type({ json: true }, 'check', [broken.url], options)
  assert.equal(json.code, EXIT.notClean)
  const [hello, stream] = json.out
    .split('\n')
    .map((line) => (line ? (JSON.parse(line) as AgentCheck) : undefined))
  assert.deepEqual(hello, {
    state: 'failed',
    code: 'agent_refused',
    found: 'The agent answered with status 404',
    remedy: 'Correct the path of the URL: the server has no route there',
    name: 'hello',
  })
  assert.deepEqual(stream, { name: 'stream', state: 'skipped', found: 'It needs hello, which has failed' })
  const table = await type({ isTTY: true }, 'check', [broken.url], options)
  assert.match(
    table.out,
    /^STATE {4}NAME +FOUND\nfailed {3}hello +The agent answered with status 404\. Correct the path/,
  )
  assert.match(table.err, /^hello: failed$/m)
  assert.match(table.err, /^9 checks: 1 failed, 0 warning, 8 skipped\.$/m)
  assert.ok(!`${table.out}${table.err}`.includes(SECRET))

  const unusable = await type({}, 'check', [good.url])
  assert.equal(unusable.code, EXIT.usage)
  assert.match(unusable.err, /no \.fleetline\/agent-secret here\. .*--secret-file FILE/)
})
