// docs/guides/ag-ui.md as a reader types it, against a pod and the agent in Python.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { typePage } from '../support/guide.ts'
import { call } from '../support/http.ts'
import { startPod } from '../support/pods.ts'
import { shell } from '../support/shell.ts'
import { openDatabase } from '../support/store.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/ag-ui.md'), 'utf8')
const SECRET = 'whsec_ZmxlZXRsaW5lLWV4YW1wbGUtc2VjcmV0LTAwMDE='

test('the guide to AG-UI: an agent in Python is checked, replies, and is followed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-guide-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'secret'), SECRET)
  const output = shell(t, 'python3 examples/ag-ui-agent/agent.py', {
    cwd: ROOT,
    env: { ...process.env, AGENT_SECRET: SECRET, PORT: '0' },
  })
  const find = () => /Listening on (http:\/\/localhost:\d+\/)/.exec(output())![1]!
  const agent = await eventually(find, { what: 'the agent', details: output })
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const { gateway, program } = await startPod(t, url, {
    FLEETLINE_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64'),
    FLEETLINE_AGENT_HOSTS: 'localhost,127.0.0.0/8,::1',
  })
  const added = { name: 'local', url: agent, secret: SECRET, protocol: 'ag-ui' }
  assert.equal((await call('POST', `${gateway}/v1/agents`, added)).status, 201)
  await call('POST', `${gateway}/v1/sessions`, { alias: 'local', agent: 'local' })
  const page = PAGE.replaceAll('http://localhost:3000/', agent)
    .replaceAll('http://localhost:4400', gateway)
    .replaceAll('.fleetline/agent-secret', join(folder, 'secret'))
  await typePage(page, { folder, env: { FLEETLINE_URL: gateway }, database, details: program.output })
})
