// node scripts/lint-packages.ts TARBALL …: prints what publint and attw (are the types wrong?) find in packed packages, one line each. They
// are for programs that import ES modules, so what attw says of older ones does not count.
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'

const OLD: ReadonlySet<unknown> = new Set(['node10', 'node16-cjs'])

for (const path of process.argv.slice(2)) {
  const data = new Uint8Array(readFileSync(path))
  for (const found of [...(await lint(data)), ...(await typesOf(data))])
    console.log(`${basename(path)}: ${found}`)
}

async function lint(data: Uint8Array<ArrayBuffer>): Promise<string[]> {
  const { messages, pkg } = await publint({ pack: { tarball: data.buffer }, strict: true })
  return messages.map((message) => formatMessage(message, pkg) ?? message.code)
}

async function typesOf(data: Uint8Array): Promise<string[]> {
  const pkg = createPackageFromTarballData(data)
  if (!('exports' in (JSON.parse(pkg.readFile(`/node_modules/${pkg.packageName}/package.json`)) as object)))
    return [] // it has a command only
  const checked = await checkPackage(pkg)
  if (!checked.types) return ['it has no types']
  return checked.problems
    .filter((problem) => !('resolutionKind' in problem && OLD.has(problem.resolutionKind)))
    .map((problem) => JSON.stringify(problem))
}
