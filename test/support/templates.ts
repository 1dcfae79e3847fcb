// An app of each template of create-fleetline, and what it answers while its fleet runs.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CLONE_ENV } from '../../packages/server/test/support/clone.ts'
import { eventually } from '../../packages/server/test/support/eventually.ts'
import { blocksIn } from '../../packages/server/test/support/guide.ts'

type App = { readonly folder: string; readonly api: string; readonly operator: string }

export const TEMPLATE_NAMES = ['chat', 'queue', 'machine'] as const

/** Checks that the app does what its template says. */
export const ANSWERS: Readonly<Record<(typeof TEMPLATE_NAMES)[number], (app: App) => Promise<void>>> = {
  chat: async ({ api }) => {
    const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Rome?' }] }
    const answer = await fetch(`${api}/v1/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id: 'trip', message }),
    })
    assert.match(await answer.text(), /"delta":"Rome\?\. "[^]*"type":"finish"[^]*\[DONE\]/)
  },
  queue: async (app) => {
    await typeCommands(app)
    await untilResults(app, ['"Hello, Ada!"', /"order":"A-17"/])
  },
  machine: async (app) => {
    await typeCommands(app)
    await untilResults(app, [/"parcel":"parcel-A-17"/])
  },
}

/** Runs the commands of the second block of its page, as a reader types them. */
async function typeCommands(app: App): Promise<void> {
  const blocks = blocksIn(readFileSync(join(app.folder, 'README.md'), 'utf8'))
  await run(blocks[1]!.text, app)
}

/** Waits until the tasks of the app are done, and compares their results as JSON. */
async function untilResults(app: App, wanted: readonly (string | RegExp)[]): Promise<void> {
  const done = async () => {
    const listed = await run('npx fleetline tasks ls --json', app)
    const ids = listed
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { readonly id: string }).id)
    const tasks = await Promise.all(ids.map((id) => run(`npx fleetline tasks get ${id} --json`, app)))
    const results = tasks.map((text) =>
      JSON.stringify((JSON.parse(text) as { readonly result?: unknown }).result),
    )
    for (const one of wanted)
      assert.ok(
        results.some((result) =>
          typeof one === 'string' ? result === one : result !== undefined && one.test(result),
        ),
        tasks.join('\n'),
      )
  }
  await eventually(done, { what: 'the results' })
}

async function run(script: string, { folder, api, operator }: App): Promise<string> {
  const env = { ...CLONE_ENV, FLEETLINE_URL: api, FLEETLINE_OPERATOR_URL: operator }
  return (await promisify(execFile)('sh', ['-ec', script], { cwd: folder, env })).stdout
}
