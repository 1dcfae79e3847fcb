// npm run test:browser [-- NAME --keep]: tests pages in Chromium, as a person uses them, one file after the other. With NAME, only
// NAME.test.ts. Pictures and the clip go to a folder that it names at the end; with --keep to docs/pictures, where the README and
// the guide show them. The last line is one JSON verdict. Figures that tests report are published, not judged.
import { globSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { needPrograms } from '../packages/server/test/support/debian.ts'
import { withCluster } from './cluster.ts'
import { runTests, type Figure } from './test.ts'

const ROOT = join(import.meta.dirname, '..')
if (process.env['CHROMIUM'] === undefined) needPrograms({ chromium: 'chromium' })
needPrograms({ ffmpeg: 'ffmpeg' })
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { keep: { type: 'boolean', default: false } },
})
const [name = '*'] = positionals
const pictures = values.keep ? 'docs/pictures' : mkdtempSync(join(tmpdir(), 'fleetline-pictures-'))
process.env['PICTURES'] = values.keep ? join(ROOT, pictures) : pictures

let [passed, failed] = [0, 0]
const figures: Figure[] = []
await withCluster(async () => {
  for (const path of globSync(`packages/page/test/browser/${name}.test.ts`, { cwd: ROOT }).toSorted()) {
    const tally = await runTests([join(ROOT, path)])
    passed += tally.passed
    failed += tally.failed
    figures.push(...tally.figures)
  }
})
console.log(
  JSON.stringify({ browser: 'page', passed, failed, figures: Object.fromEntries(figures), pictures }),
)
process.exitCode = failed === 0 && passed > 0 ? 0 : 1
