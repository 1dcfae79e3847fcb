// The page's files. In a clone they are bundled on each request, so that a reload shows changes. In a package they are read as
// they were built.
import { readFile } from 'node:fs/promises'

export const PAGE_FILES: Readonly<Record<string, { readonly name: string; readonly type: string }>> = {
  '/': { name: 'index.html', type: 'text/html; charset=utf-8' },
  '/page.css': { name: 'page.css', type: 'text/css; charset=utf-8' },
  '/page.js': { name: 'page.js', type: 'text/javascript; charset=utf-8' },
}
const BUILT = new URL('../../../page/', import.meta.url)
const SOURCES = new URL('../../../../../page/bundle.ts', import.meta.url)

type Bundle = { readonly bundlePage: () => Readonly<Record<string, Uint8Array>> }

export async function readPageFile(name: string): Promise<Uint8Array> {
  if (!import.meta.url.endsWith('.ts')) return readFile(new URL(name, BUILT))
  const { bundlePage } = (await import(SOURCES.href)) as Bundle
  return bundlePage()[name]!
}
