// The README's "Try it" as a stranger types it: every command as written, except for the ports, which may be taken here.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { CLONE_ENV, cloneFor, startFleet } from '../support/clone.ts'
import { blocksIn } from '../support/guide.ts'

const ROOT = join(import.meta.dirname, '../../../..')

function blocksOf(section: string): string[] {
  const [, text = ''] = readFileSync(join(ROOT, 'README.md'), 'utf8').split(`## ${section}\n`)
  return Array.from(text.split('\n## ')[0]!.matchAll(/```sh\n([^]*?)```/g), ([, block]) => block!.trim())
}

test('the commands of the README and of the guide to the dev fleet do what they say', async (t) => {
  const [install, dev, elsewhere] = blocksOf('Try it')
  assert.equal(install, 'npm ci')
  const clone = cloneFor(t)
  const fleet = await startFleet(t, dev!, clone)
  const { api, operator } = fleet

  const answers: string[] = []
  for (const line of elsewhere!.split('\n')) {
    const command = line
      .replace('localhost:4400', `localhost:${api}`)
      .replace('localhost:4401', `localhost:${operator}`)
    const env = { ...CLONE_ENV, FLEETLINE_URL: `http://localhost:${api}` }
    const { stdout } = await promisify(execFile)('sh', ['-c', command], { cwd: clone, env })
    answers.push(stdout)
  }
  const expected = [
    /^\{"state":"ok"/,
    /^fleetline_/m,
    /"openapi":"3.1/,
    /0001_schema\tapplied/,
    /databaseUrl\t/,
    /^session\tses_/,
    /^You said: good morning\n$/,
  ]
  assert.equal(answers.length, expected.length)
  for (const [index, answer] of answers.entries()) assert.match(answer, expected[index]!)

  const [, mint] = /^token (.+?) {3}#/m.exec(fleet.output())!
  const { stdout: minted } = await promisify(execFile)('sh', ['-c', mint!], { cwd: clone, env: CLONE_ENV })
  assert.match(minted, /^ey\S+$/m)

  const guide = readFileSync(join(ROOT, 'docs/guides/dev.md'), 'utf8')
  const [unread] = blocksIn(guide)
  const lunch = unread!.text.replace('localhost:4400', `localhost:${api}`)
  const env = { ...CLONE_ENV, FLEETLINE_URL: `http://localhost:${api}` }
  await promisify(execFile)('sh', ['-ec', lunch], { cwd: clone, env })
  const inbox = await fetch(`http://localhost:${api}/v1/inbox?user=ada&show=unread`)
  assert.match(await inbox.text(), /"alias":"lunch".*"unread":1/)

  const told: string[] = []
  for (const line of blocksIn(guide, 'Without the page')[0]!.text.trim().split('\n')) {
    const command = line.replace('localhost:4402', `localhost:${fleet.page}`)
    told.push((await promisify(execFile)('sh', ['-c', command], { cwd: clone })).stdout)
  }
  assert.match(told.shift()!, /^\{"version":.*"pods":\[\{"name":"pod-1","state":"ready"/)
  assert.deepEqual(told, [
    '{"pod":"pod-1","act":"kill"}',
    '{"pod":"pod-2","act":"pause"}',
    '{"pod":"pod-2","act":"wake"}',
    '{"isChaos":true}',
    '{"isChaos":false}',
  ])
  assert.equal(await fleet.stop(), 0, fleet.output())
})
