// npm run site [-- --test]: builds the documentation site into site/dist. With --test it also checks the types of the site and opens the
// site in Chromium; pictures go to a folder that the last line names. The last line is one JSON verdict. VitePress is installed by
// `npm ci --prefix site --ignore-scripts`.
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdtempSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { needPrograms } from '../packages/server/test/support/debian.ts'
import { runTests } from './test.ts'

const ROOT = join(import.meta.dirname, '..')
const SITE = join(ROOT, 'site')
const DIST = join(SITE, 'dist')
const VITEPRESS = join(SITE, 'node_modules/.bin/vitepress')

const { values } = parseArgs({ options: { test: { type: 'boolean', default: false } } })
if (!existsSync(VITEPRESS)) {
  console.error('VitePress is not installed: run npm ci --prefix site --ignore-scripts')
  process.exit(1)
}

const startMs = performance.now()
run(VITEPRESS, 'build', SITE)
const figures = { site_build_s: Math.round((performance.now() - startMs) / 1000), ...measure() }
const tested = values.test ? await testSite() : { passed: 0, failed: 0 }
console.log(JSON.stringify({ site: 'site/dist', ...tested, figures }))
process.exitCode = tested.failed === 0 ? 0 : 1

/** Shows the output of a program only if it fails. */
function run(command: string, ...args: string[]): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8' })
  if (status === 0) return
  console.error(`${stdout}\n${stderr}`)
  throw error ?? new Error(`${command} ended with ${status}`)
}

function measure() {
  const files = globSync('**/*', { cwd: DIST }).map((path) => statSync(join(DIST, path)))
  const bytes = files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0)
  return {
    site_pages: globSync('**/*.html', { cwd: DIST }).length,
    site_mb: Math.round(bytes / 100_000) / 10,
  }
}

async function testSite() {
  if (process.env['CHROMIUM'] === undefined) needPrograms({ chromium: 'chromium' })
  run(join(ROOT, 'node_modules/.bin/tsc'), '-p', join(SITE, 'tsconfig.json'))
  const pictures = mkdtempSync(join(tmpdir(), 'fleetline-pictures-'))
  process.env['PICTURES'] = pictures
  const { passed, failed } = await runTests([join(SITE, 'test/site.test.ts')])
  return { passed, failed: passed > 0 ? failed : 1, pictures }
}
