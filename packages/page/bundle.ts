// The page as its server sends it: three files. `scripts/build.ts` puts them into the package; in a clone the dev fleet bundles
// them whenever they are asked for. It leaves no process behind.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildSync } from 'esbuild'

const SOURCES = join(import.meta.dirname, 'src')

export function bundlePage(): Record<string, Uint8Array> {
  const { outputFiles } = buildSync({
    entryPoints: [join(SOURCES, 'main.tsx')],
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2024',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    conditions: ['fleetline-source'],
    write: false,
    logLevel: 'silent', // a failure is thrown, with what was wrong
  })
  return {
    'index.html': readFileSync(join(SOURCES, 'index.html')),
    'page.css': readFileSync(join(SOURCES, 'page.css')),
    'page.js': outputFiles[0]!.contents,
  }
}
