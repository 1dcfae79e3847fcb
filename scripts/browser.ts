// npm run test:browser [-- --keep]: tests the page in Chromium, as a person uses it, one file after the other. Pictures and the
// clip go to a folder that it names at the end; with --keep to docs/pictures, where the README and the guide show them. The last
// line is one JSON verdict. Figures that tests report are published, not judged.
import { globSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { needPrograms } from '../packages/server/test/support/debian.ts'
import { runTests, type Figure } from './test.ts'

const ROOT = join(import.meta.dirname, '..')
if (process.env['CHROMIUM'] === undefined) needPrograms({ chromium: 'chromium' })
needPrograms({ ffmpeg: 'ffmpeg' })
const { values } = parseArgs({ options: { keep: { type: 'boolean', default: false } } })
const pictures = values.keep ? 'docs/pictures' : mkdtempSync(join(tmpdir(), 'fleetline-pictures-'))
process.env['PICTURES'] = values.keep ? join(ROOT, pictures) : pictures

let [passed, failed] = [0, 0]
const figures: Figure[] = []
for (const path of globSync('packages/page/test/browser/*.test.ts', { cwd: ROOT }).toSorted()) {
  const tally = await runTests([join(ROOT, path)])
  passed += tally.passed
  failed += tally.failed
  figures.push(...tally.figures)
}
console.log(
  JSON.stringify({ browser: 'page', passed, failed, figures: Object.fromEntries(figures), pictures }),
)
process.exitCode = failed === 0 && passed > 0 ? 0 : 1
