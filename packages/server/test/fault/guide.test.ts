// Types docs/guides/sessions.md, and the sections of docs/guides/agents.md that take less than a minute, as a reader does, against
// pods. Each block prints what the page shows, except for ids, times and the width of columns.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { blocksIn, isCode, joined, plain } from '../support/guide.ts'
import { call, makeSession } from '../support/http.ts'
import { NO_KEYS, startPod } from '../support/pods.ts'
import { withoutSettings } from '../support/program.ts'
import { shell } from '../support/shell.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const pageOf = (name: string) => readFileSync(join(ROOT, `docs/guides/${name}.md`), 'utf8')
const blocksOf = (section: string) => blocksIn(pageOf('sessions'), section)

test('the guide to sessions does what it says', async (t) => {
  const url = await databaseFor(t)
  const pods = await Promise.all([startPod(t, url), startPod(t, url)])
  const here = (text: string) =>
    text
      .replaceAll('localhost:4410', new URL(pods[0].gateway).host)
      .replaceAll(/localhost:44[02]0/g, new URL(pods[1].gateway).host)
  const env = {
    ...withoutSettings(process.env),
    NODE_OPTIONS: '--conditions=fleetline-source',
    FLEETLINE_URL: pods[1].gateway,
    FLEETLINE_UNREADY_MS: '0',
    ...NO_KEYS,
    DATABASE_URL: url,
  }
  const run = async (file: string, args: string[], more = {}) =>
    (await promisify(execFile)(file, args, { cwd: ROOT, env: { ...env, ...more } })).stdout

  const written = blocksOf('Write and reread')
  const script = here(joined(written.filter(isCode)))
  const [output, session = ''] = (await run('sh', ['-c', `${script}\necho "SESSION $SESSION"`])).split(
    'SESSION ',
  )
  assert.equal(plain(output!), plain(joined(written.filter((block) => !isCode(block)))))

  const withSession = { SESSION: session.trim() }
  const [follow, write, shown] = blocksOf('Two terminals, two pods').map(({ text }) => here(text))
  const terminalOf = (block: string) => `${here(written[0]!.text)}${block}`
  const told = shell(t, terminalOf(follow!), { cwd: ROOT, env: { ...env, ...withSession } })
  await run('sh', ['-c', terminalOf(write!)], withSession)
  await eventually(() => assert.equal(plain(told()), plain(shown!)), { what: 'the tail', details: told })

  const [overHttp, printed, inProcess, printedToo] = blocksOf('From a program').map(({ text }) => here(text))
  const type = (program: string) => run(process.execPath, ['--input-type=module', '-e', program], withSession)
  assert.equal(plain(await type(overHttp!)), plain(printed!))
  assert.equal(plain(await type(inProcess!)), plain(printedToo!))

  const [overSocket, shownLast] = blocksOf('One socket for many sessions').map(({ text }) => here(text))
  assert.equal(plain(await type(overSocket!)), plain(shownLast!))
})

test('the guide to useChat does what it says, and quotes the example', async (t) => {
  const { gateway } = await startPod(t, await databaseFor(t), { FLEETLINE_DEMO_AGENT: 'yes' })
  await call('PATCH', `${gateway}/v1/tenant`, { defaultAgent: 'demo' })
  const here = (text: string) => text.replaceAll('http://localhost:4400', gateway)
  const [asked, shown, overHttp, shownThen] = blocksIn(pageOf('use-chat'), 'Try it').map(({ text }) =>
    here(text),
  )
  const run = async (file: string, ...args: string[]) =>
    plain((await promisify(execFile)(file, args, { cwd: ROOT })).stdout)
  assert.equal(await run('sh', '-c', asked!), plain(shown!))
  const type = (program: string) => run(process.execPath, '--input-type=module', '-e', program)
  assert.equal(await type(overHttp!), plain(shownThen!))
  const [overSocket, shownLast] = blocksIn(pageOf('use-chat'), 'Over a socket').map(({ text }) => here(text))
  assert.equal(await type(overSocket!), plain(shownLast!))
  const example = readFileSync(join(ROOT, 'examples/use-chat/src/chat.tsx'), 'utf8')
  for (const { text } of blocksIn(pageOf('use-chat'), 'The page'))
    assert.ok(example.includes(text.trim()), text)
})

test('the guide to agents does what it says', async (t) => {
  const pod = await startPod(t, await databaseFor(t), { FLEETLINE_DEMO_AGENT: 'yes' })
  await makeSession(pod.gateway, { alias: 'demo', agent: 'demo' })
  const blocks = ['Talk', 'Stop', 'Regenerate and edit'].flatMap((section) =>
    blocksIn(pageOf('agents'), section),
  )
  const env = { ...withoutSettings(process.env), FLEETLINE_URL: pod.gateway }
  const script = joined(blocks.filter(isCode))
  const { stdout } = await promisify(execFile)('sh', ['-c', script], { cwd: ROOT, env })
  assert.equal(plain(stdout), plain(joined(blocks.filter((block) => !isCode(block)))))
})
