// Runs docs/guides/client.md against a pod, as a reader would.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { databaseFor } from '../../../server/test/support/database.ts'
import { blocksIn } from '../../../server/test/support/guide.ts'
import { makeSession } from '../../../server/test/support/http.ts'
import { podOn } from '../../../server/test/support/pod.ts'

const ROOT = join(import.meta.dirname, '../../../..')

test('the program in the guide to the client prints what the guide says', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t), { demoAgent: 'yes' })
  await makeSession(gateway, { alias: 'demo', agent: 'demo' })
  const page = readFileSync(join(ROOT, 'docs/guides/client.md'), 'utf8')
  const [program, printed] = blocksIn(page, 'From a program').map(({ text }) => text)
  const words = ['--conditions=fleetline-source', '--input-type=module', '-e']
  const here = program!.replace('http://localhost:4400', gateway)
  const { stdout } = await promisify(execFile)(process.execPath, [...words, here], { cwd: ROOT })
  assert.equal(stdout, printed)
})
