// The README as a stranger types it: every command and every block of code as written, except for the ports, which may be taken here.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { CLONE_ENV, cloneFor, startFleet } from '../support/clone.ts'
import { eventually } from '../support/eventually.ts'
import { blocksIn } from '../support/guide.ts'
import { shell } from '../support/shell.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')
const MOST_WORDS = 150 // before the first command
/** In a clone that is not built, the command runs from its sources. */
const SOURCES = { NODE_OPTIONS: '--conditions=fleetline-source' }

/** What a block shows, without ports and versions. */
const shapeOf = (line: string) =>
  line
    .replaceAll(/localhost:\d+/g, 'localhost:PORT')
    .replaceAll(/\d+\.\d+(\.\d+)?/g, 'VERSION')
    .replaceAll(/ +/g, ' ')
    .trim()

test(`the README has at most ${MOST_WORDS} words before its first command`, () => {
  const [before = ''] = README.split('```sh')
  assert.ok(before.split(/\s+/).length <= MOST_WORDS, `${before.split(/\s+/).length} words`)
})

test('the code of the README compiles, and its page is the example', async (t) => {
  const folder = join(cloneFor(t), 'readme')
  mkdirSync(folder)
  writeBlocks(folder)
  const options = [
    '--ignoreConfig',
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--types',
    'node',
  ]
  const more = ['--customConditions', 'fleetline-source', '--allowImportingTsExtensions', '--skipLibCheck']
  const files = ['app.ts', 'route.ts'].map((name) => join(folder, name))
  await promisify(execFile)(join(ROOT, 'node_modules/.bin/tsc'), [...options, ...more, ...files], {
    cwd: folder,
  })
  const page = blocksIn(README).find(({ language }) => language === 'tsx')!
  assert.ok(readFileSync(join(ROOT, 'examples/use-chat/src/chat.tsx'), 'utf8').includes(page.text.trim()))
})

/** The blocks with code as files: a route, and an app of three modules. */
function writeBlocks(folder: string): void {
  const [route, ...modules] = blocksIn(README).filter(({ language }) => language === 'ts')
  writeFileSync(join(folder, 'route.ts'), route!.text)
  writeFileSync(join(folder, 'model.ts'), `export * from '../examples/ai-sdk-agent/model.ts'\n`)
  for (const [index, { text }] of modules.entries()) writeFileSync(join(folder, `part-${index}.ts`), text)
  const parts = modules.map((_, index) => `export * from './part-${index}.ts'\n`)
  writeFileSync(join(folder, 'app.ts'), parts.join(''))
}

test('the commands of the README and of the guide to the dev fleet do what they say', async (t) => {
  const [dev, panel, elsewhere] = blocksIn(README, 'Try it').map(({ text }) => text.trim()) as [
    string,
    string,
    string,
  ]
  const clone = cloneFor(t)
  const folder = join(clone, 'readme')
  mkdirSync(folder)
  writeBlocks(folder)
  const fleet = await startFleet(t, `${dev} readme/app.ts`, clone, SOURCES)
  const { api, operator } = fleet
  const shown = fleet.output().split('\n').map(shapeOf)
  for (const line of panel.split('\n')) assert.ok(shown.includes(shapeOf(line)), `${line}\n${fleet.output()}`)

  const answers: string[] = []
  for (const line of elsewhere.split('\n')) {
    const command = line
      .replace('localhost:4400', `localhost:${api}`)
      .replace('localhost:4401', `localhost:${operator}`)
    const env = { ...CLONE_ENV, ...SOURCES, FLEETLINE_URL: `http://localhost:${api}` }
    const { stdout } = await promisify(execFile)('sh', ['-c', command], { cwd: clone, env })
    answers.push(stdout)
  }
  const expected = [/^You said: good morning\n$/, /^\{"state":"ok"/, /"openapi":"3.1/]
  assert.equal(answers.length, expected.length)
  for (const [index, answer] of answers.entries()) assert.match(answer, expected[index]!)

  await runCode({ clone, api })
  const [, mint] = /^token (.+?) {3}#/m.exec(fleet.output())!
  const { stdout: minted } = await promisify(execFile)('sh', ['-c', mint!], {
    cwd: clone,
    env: { ...CLONE_ENV, ...SOURCES },
  })
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

/** The client, the agent, the task and the machine of the README, in its fleet. */
async function runCode({ clone, api }: { readonly clone: string; readonly api: string }): Promise<void> {
  const env = { ...CLONE_ENV, ...SOURCES, FLEETLINE_URL: `http://localhost:${api}` }
  const run = async (file: string, ...words: string[]) =>
    (await promisify(execFile)(file, words, { cwd: clone, env })).stdout
  const [client] = blocksIn(README).filter(({ language }) => language === 'js')
  const program = client!.text.replace('localhost:4400', `localhost:${api}`)
  assert.match(await run(process.execPath, '--input-type=module', '-e', program), /^message \d+ is stored$/m)
  const fleetline = (words: string) => run('sh', '-c', `npx fleetline ${words}`)
  await fleetline('sessions create --alias hello --agent greeter')
  assert.equal(await fleetline('sessions send hello hi'), 'Hello! This is message 1.\n')
  await fleetline(`tasks enqueue order '{"cents": 4200}'`)
  const isDone = async () => {
    const listed = await fleetline('tasks ls --json')
    assert.match(listed, /"state":"done"/)
  }
  await eventually(isDone, { what: 'the order' })
}

test('the route of the README passes `agents check`', async (t) => {
  const clone = cloneFor(t)
  const folder = join(clone, 'readme')
  mkdirSync(folder)
  writeBlocks(folder)
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
  writeFileSync(join(folder, 'secret'), secret)
  const url = await serve(t, { clone, secret })
  const check = `npx fleetline agents check ${url} --secret-file readme/secret --json`
  const env = { ...CLONE_ENV, ...SOURCES }
  const { stdout } = await promisify(execFile)('sh', ['-c', check], { cwd: clone, env })
  assert.doesNotMatch(stdout, /"failed"/)
})

type Served = { readonly clone: string; readonly secret: string }

function serve(t: TestContext, { clone, secret }: Served): Promise<string> {
  const env = { ...CLONE_ENV, PORT: '0', AGENT_SECRET: secret }
  const output = shell(t, 'npm run example -- readme/route.ts', { cwd: clone, env })
  const find = () => /Listening on (http:\S+)/.exec(output())![1]!
  return eventually(find, { what: 'the route', details: output })
}
