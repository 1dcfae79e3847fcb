// What `fleetline sessions …` prints and where, and the exit code of each kind of failure; in this process.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { SESSIONS } from '../../src/cli/sessions.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { podOn } from '../support/pod.ts'
import { typing } from '../support/terminal.ts'

const type = typing(SESSIONS, 'sessions')

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
    [
      await type({ url }, 'send', [session, 'other'], { id: 'm-1' }),
      4,
      /The id m-1 is taken by another message, at seq 1/,
    ],
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

test('what something in between answers, and an answer that breaks off, may be asked again: exit 5', async (t) => {
  const answers: Record<string, (response: ServerResponse) => void> = {
    bad: (response) =>
      void response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad Gateway</h1>'),
    cut: (response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{"id":')
      response.socket!.end()
    },
    odd: (response) => void response.writeHead(418).end('a teapot'),
  }
  const server = createServer(({ url }, response) => answers[url!.split('/')[3]!]!(response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const sent = async (session: string) => {
    const { code, err } = await type({ url }, 'send', [session, 'hi'], { id: 'm-1' })
    return [code, err]
  }
  const [bad, cut, odd] = [await sent('bad'), await sent('cut'), await sent('odd')]
  assert.deepEqual([bad[0], cut[0], odd[0]], [5, 5, 1])
  assert.match(String(bad[1]), /502, not by Fleetline.*sent again with --id m-1/)
  assert.match(String(cut[1]), /broke off.*sent again with --id m-1/)
  assert.match(String(odd[1]), /418, not by Fleetline/)
})
