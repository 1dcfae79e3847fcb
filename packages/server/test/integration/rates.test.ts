// S29: what callers get that send too much, and what all others get meanwhile, over HTTP. A check reads the answers; a pod whose
// limits let everything through turns it red.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { task } from '../../src/index.ts'
import { TASKS } from '../../src/cli/tasks.ts'
import { refusalSchema } from '../../src/door/refusal.ts'
import { databaseFor } from '../support/database.ts'
import { call } from '../support/http.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { readEvents, untilSeq } from '../support/reader.ts'
import { typing } from '../support/terminal.ts'

const WORK = task('work', () => undefined)
const RATE = 2
const TIMES = 50
const BURST = 4 * RATE
/** The highest values that the settings take: here they let everything through. */
const NO_LIMITS = { keyRate: '1000000', tenantRate: '1000000', userRate: '1000000', sessionRate: '1000000' }

type Answer = {
  readonly status: number
  readonly retryAfter: string | null
  readonly text: string
}
type Sent = { readonly answers: readonly Answer[]; readonly seconds: number }

test('S29: a tenant at 50 times its rate gets 429 for what is over; every request of another tenant is answered', async (t) => {
  const flood = async (flags: Readonly<Record<string, string>>) => {
    const { url, headersOf, pod } = await setUp(t, { ...NO_LIMITS, ...flags })
    const { session } = await pod.sessions.create({ members: ['ada'] })
    const { token } = await pod.tokens.mint({ user: 'ada' })
    const stream = await readEvents(t, `${url}/${session}/events`, { authorization: `Bearer ${token}` })
    const [loud, other, quiet] = [await headersOf('dev'), await headersOf('dev'), await headersOf('acme')]
    const [many, few] = await Promise.all([
      sendAll(TIMES * RATE, (n) => get(url, n % 2 === 0 ? loud : other)),
      sendAll(BURST, () => get(url, quiet)),
    ])
    const { seq } = await pod.sessions.send(session, 'still open')
    await untilSeq(stream, seq)
    assert.equal(stream.why(), undefined)
    return { many, few }
  }
  const { many, few } = await flood({ tenantRate: String(RATE) })
  checkLimit(many, {
    rate: RATE,
    least: 3 * RATE, // requests before have used a little
    text: /The callers of this tenant send too many requests to this pod: at most 2 a second/,
  })
  assert.deepEqual(
    few.answers.map(({ status }) => status),
    few.answers.map(() => 200),
  )
  const mutant = await flood({})
  assert.throws(() => checkLimit(mutant.many, { rate: RATE, text: /./ }), /were answered/)
})

test('S29: the limit of a session counts all its users together; what it rejects is not stored', async (t) => {
  const { url, pod, keyOf } = await setUp(t, { ...NO_LIMITS, sessionRate: String(RATE) })
  const { session } = await pod.sessions.create({ members: ['ada', 'bob'] })
  const tokens = await Promise.all(['ada', 'bob'].map((user) => pod.tokens.mint({ user })))
  const at = `${url}/${session}/messages`
  const post = (n: number) => {
    const message = { id: `m-${n}`, parts: [{ type: 'text', text: 'hello' }] }
    const headers = {
      authorization: `Bearer ${tokens[n % 2]!.token}`,
      'content-type': 'application/json',
    }
    return answerOf(fetch(at, { method: 'POST', headers, body: JSON.stringify({ message }) }))
  }
  const sent = await sendAll(TIMES * RATE, post)
  checkLimit(sent, {
    rate: RATE,
    least: 4 * RATE,
    text: /append too many messages to this session on this pod: at most 2 a second/,
  })
  const { head } = await pod.sessions.read(session)
  assert.equal(head, sent.answers.filter(({ status }) => status === 200).length)

  const repeats = await sendAll(TIMES * RATE, () => post(0))
  checkLimit(repeats, { rate: RATE, text: /append too many/ })
  const byKey = await call('POST', at, { text: 'from the application' }, await keyOf('dev'))
  assert.equal(byKey.status, 200, 'an application does not count')
})

test('S29: failed logins do not lock out a key that the pod knows, behind the same address', async (t) => {
  const { url, headersOf } = await setUp(t, { loginRate: '1' })
  const known = await headersOf('dev')
  const fresh = await headersOf('acme')
  assert.equal((await get(url, known)).status, 200)
  const wrong = { authorization: `${known.authorization.slice(0, -4)}0000` }
  const { answers } = await sendAll(60, () => get(url, wrong))
  assert.equal(answers.filter(({ status }) => status === 401).length, 1)
  for (const { status, retryAfter } of answers) if (status === 429) assert.ok(Number(retryAfter) >= 1)
  assert.equal((await get(url, known)).status, 200)
  assert.equal((await get(url, fresh)).status, 429, 'a key that this pod has not read')
})

test('a command that is over a limit says what to do and exits with 5; nothing was done', async (t) => {
  const { pod, gateway } = await setUp(t, { keyRate: '1' })
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'worker', scopes: ['tasks:write'] })
  const flags = { apiUrl: gateway, apiKey: key }
  const tasks = typing(TASKS, 'tasks')
  const ended = await Promise.all(Array.from({ length: 40 }, () => tasks({ flags }, 'enqueue', [WORK.name])))
  const rejected = ended.filter(({ code }) => code !== 0)
  assert.ok(rejected.length > 0)
  for (const { code, err } of rejected) {
    assert.equal(code, 5)
    assert.match(
      err,
      /^fleetline: Callers with this key send too many requests to this pod: at most 1 a second\. Wait, then send again\. \(POST \/v1\/tasks, req_[\w-]+\)\n$/,
    )
  }
  assert.equal((await pod.listTasks()).tasks.length, ended.length - rejected.length)
})

/** Throws unless what was over the rate, and only that, was rejected with the wait and this text. */
type Wanted = { readonly rate: number; readonly text: RegExp; readonly least?: number }

function checkLimit({ answers, seconds }: Sent, { rate, text, least = 0 }: Wanted): void {
  const passed = answers.filter(({ status }) => status === 200)
  const rejected = answers.filter(({ status }) => status === 429)
  assert.equal(passed.length + rejected.length, answers.length, 'other answers than 200 and 429')
  const most = 4 * rate + rate * seconds
  assert.ok(passed.length <= most, `${passed.length} were answered, not ${most}`)
  assert.ok(passed.length >= least, `${passed.length} were answered, not ${least}`)
  for (const { retryAfter, text: body } of rejected) {
    const { error } = refusalSchema.parse(JSON.parse(body))
    assert.match(error.text, text)
    assert.equal(error.code, 'rate_limited')
    assert.ok(error.retryAfterMs! >= 1 && Number(retryAfter) === Math.ceil(error.retryAfterMs! / 1_000))
  }
}

/** Sends requests at the same time. `seconds` is how long the pod had at most to let them in. */
async function sendAll(count: number, send: (n: number) => Promise<Answer>): Promise<Sent> {
  const fromMs = performance.now()
  const answers = await Promise.all(Array.from({ length: count }, (_, n) => send(n)))
  return { answers, seconds: (performance.now() - fromMs) / 1_000 }
}

async function answerOf(asked: Promise<Response>): Promise<Answer> {
  const answer = await asked
  return { status: answer.status, retryAfter: answer.headers.get('retry-after'), text: await answer.text() }
}

function get(url: string, headers: { readonly authorization: string }): Promise<Answer> {
  return answerOf(fetch(url, { headers }))
}

async function setUp(t: TestContext, flags: Readonly<Record<string, string>>) {
  const { pod, gateway } = await podOn(t, await databaseFor(t), { ...CLOSED, ...flags }, { tasks: [WORK] })
  await pod.tenants.create('acme')
  let made = 0
  const keyOf = async (tenant: string) => (await pod.keys.create({ tenant, name: `key-${(made += 1)}` })).key
  return {
    pod,
    gateway,
    url: `${gateway}/v1/sessions`,
    keyOf,
    headersOf: async (tenant: string) => ({ authorization: `Bearer ${await keyOf(tenant)}` }),
  }
}
