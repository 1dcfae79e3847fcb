// What `fleetline dev` prints first.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { showPanel } from '../../src/cli/dev/events.ts'
import { createOutput } from '../../src/cli/output.ts'
import { ALL_RIGHTS } from '../../src/identity/scopes.ts'

test('the command for another token names all rights, which the printed token has, too', () => {
  let printed = ''
  const sink = { write: (text: string) => (printed += text) }
  showPanel(createOutput(sink, sink, false), {
    version: '1',
    command: 'fleetline',
    page: 'http://localhost:4402',
    api: 'http://localhost:4400',
    operator: 'http://localhost:4401',
    postgres: '.fleetline/pg',
    pods: 2,
    logs: '.fleetline/pod-N.log',
    pids: '.fleetline/pod-N.pid',
    session: 'demo',
    agent: ['demo', ''],
  })
  const [, rights] = /^token fleetline token --user ada --rights (\S+) /m.exec(printed) ?? []
  assert.deepEqual(rights?.split(','), ALL_RIGHTS)
})
