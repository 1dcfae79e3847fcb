// What `fleetline sessions …` prints and where, and the exit code of each kind of failure; in this process.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Options } from '../../src/cli/command.ts'
import { createOutput } from '../../src/cli/output.ts'
import { SESSIONS } from '../../src/cli/sessions.ts'
import { databaseFor } from '../support/database.ts'
import { podOn } from '../support/pod.ts'

type Terminal = { readonly url: string; readonly isTTY?: boolean; readonly json?: boolean }

async function type(terminal: Terminal, verb: string, args: readonly string[] = [], options: Options = {}) {
  const said = { out: '', err: '' }
  const sink = (name: 'out' | 'err') => ({
    write: (text: string) => (said[name] += text),
    isTTY: terminal.isTTY ?? false,
  })
  const output = createOutput(sink('out'), sink('err'), terminal.json ?? false)
  const command = SESSIONS.find(({ name }) => name === `sessions ${verb}`)!
  const call = { flags: { url: terminal.url }, args, options, output }
  const code = await command.run(call).catch((error: unknown) => output.fail(error))
  return { code, ...said }
}

test('data goes to stdout as a table, tabs or JSON; a failure to stderr, with its exit code', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t))
  const json = { url, json: true }
  const made = JSON.parse((await type(json, 'create', [], { title: 'Trip to Rome' })).out) as {
    session: string
    updatedAt: string
  }
  const { session, updatedAt } = made
  assert.equal((await type({ url }, 'ls')).out, `${session}\tTrip to Rome\t0\t${updatedAt}\n`)
  assert.match(
    (await type({ url, isTTY: true }, 'ls')).out,
    /^SESSION +TITLE +HEAD +UPDATEDAT\nses_\w+  Trip to Rome/,
  )
  assert.deepEqual(JSON.parse((await type(json, 'get', [session])).out), made)
  assert.match((await type({ url }, 'send', [session, 'hi'], { id: 'm-1' })).out, /^id\tm-1\nseq\t1\n/)

  const absent = session.replace(/.{6}$/, '000000')
  const failures = [
    [
      await type({ url }, 'get', [absent]),
      3,
      /no such session.*Check the id.*\(GET \/v1\/sessions\/ses_\w+, req_/,
    ],
    [await type({ url }, 'send', [session, 'other'], { id: 'm-1' }), 4, /The id m-1 is taken, at seq 1/],
    [await type({ url }, 'send', [session, 'hi'], { ifHead: '' }), 2, /--if-head must be a whole number/],
    [await type({ url }, 'ls', [], { limit: '0' }), 2, /query.limit: must be from 1 to 100/],
    [
      await type({ url: 'http://127.0.0.1:1' }, 'tail', [session]),
      5,
      /no answer from http:.*running there\?/,
    ],
    [
      await type({ url: 'http://127.0.0.1:1' }, 'send', [session, 'x']),
      5,
      /again with --id [0-9a-f]{32}, it is/,
    ],
    [await type(json, 'tail', [absent]), 3, /^\{"error":\{"code":"not_found"/],
  ] as const
  for (const [{ code, out, err }, expected, text] of failures) {
    assert.match(err, text)
    assert.deepEqual([code, out], [expected, ''], err)
  }
})
