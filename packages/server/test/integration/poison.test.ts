// S15 S18 S21: a value that no row can hold, that a parser trips over, or that is simply not meant, in any field of any route: it
// is refused with a code that says whose fault it is, or it is taken. It is never an error of the pod, and whoever comes next
// is served.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refusalSchema } from '../../src/door/refusal.ts'
import { nameOf } from '../../src/door/route.ts'
import { task } from '../../src/index.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { everyField, requestWith } from '../support/route-fields.ts'

const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

/** As JSON. */
const IN_BODIES: readonly string[] = [
  String.raw`"a\u0000b"`,
  String.raw`"\ud800"`,
  String.raw`{"k\ud800":1,"\u0000":2}`,
  '{"__proto__":{"isAdmin":true}}',
  '{"constructor":{"prototype":{"isAdmin":true}}}',
  '"__proto__"',
  '"ses_0000"',
  '""',
  JSON.stringify('x'.repeat(70_000)),
  JSON.stringify('🙂'.repeat(64)),
  '"9999-12-31T23:59:59-14:00"',
  '"0000-01-01T00:00:00Z"',
  '"https://[::ffff:127.0.0.1]/"',
  String.raw`"https://example.com/\r\nX: y"`,
  '1e400',
  '-0',
  '-1',
  '9007199254740993',
  'null',
  nested(66),
  nested(100_000),
]
/** As they stand in an address. */
const IN_ADDRESSES: readonly string[] = [
  '%00',
  '%ff',
  '%ED%A0%80',
  '__proto__',
  '..%2f..',
  'ses_0000',
  `tsk_0000${'f'.repeat(32)}`,
  'x'.repeat(1_000),
  encodeURIComponent('🙂'.repeat(64)),
  '-1',
  '0',
  '1e9',
  '2147483647',
  '9999999999',
  '9999999999.9999999999.9999999999.9999999999',
]

test('S15 S18 S21: poison in any field of any route is no error of the pod, and whoever comes next is served', async (t) => {
  const flags = { secretsKey: Buffer.alloc(32, 7).toString('base64') }
  const { gateway } = await podOn(t, await databaseFor(t), flags, { tasks: [task('work', async () => 1)] })
  const { session } = await makeSession(gateway)
  const fields = [
    ...everyField(),
    ...everyField() // what a part holds beside its type is the application's
      .filter(({ field }) => field === 'body.message.parts[].type')
      .map((one) => ({ ...one, field: 'body.message.parts[].data' })),
  ]
  let asked = 0
  for (const { route, field } of fields)
    for (const value of field.startsWith('body.') ? IN_BODIES : IN_ADDRESSES) {
      const { path, init } = requestWith(route, field, value, session)
      const what = `${nameOf(route)}, ${field} = ${value.slice(0, 60)}`
      const answer = await fetch(`${gateway}${path}`, { ...init, signal: AbortSignal.timeout(60_000) })
      assert.ok(answer.status < 500, `${what}: ${answer.status}`)
      if (answer.ok) await answer.body?.cancel()
      else assert.ok(refusalSchema.safeParse(await answer.json()).success, `${what}: ${answer.status}`)
      asked += 1
    }
  assert.ok(asked > 800, `${asked} requests`)
  assert.equal(({} as { isAdmin?: boolean }).isAdmin, undefined)

  const { status } = await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text: 'hello' })
  const { body } = await call('POST', `${gateway}/v1/tasks`, { machine: 'work' })
  assert.equal(status, 200)
  await eventually(
    async () => {
      const found = await call('GET', `${gateway}/v1/tasks/${String(body['id'])}`)
      assert.equal(found.body['state'], 'done')
    },
    { what: 'a task behind the poison to end' },
  )
})
