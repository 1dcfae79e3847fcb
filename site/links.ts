// Where the links of a page lead on the site. Pages are written for the repository: their links are relative paths of files.
// A link to a page of the site leads to that page, a link to any other file or folder to the repository.
import { statSync } from 'node:fs'
import { posix } from 'node:path'
import { addressOf, PAGES, REPOSITORY, ROOT } from './map.ts'

const ELSEWHERE = /^(?:[a-z][a-z+.-]*:|\/\/|#)/i

/** `from` is the path of the page in the repository. */
export function targetOf(from: string, link: string): string {
  if (ELSEWHERE.test(link)) return link
  const [target = '', anchor] = link.split('#')
  const path = posix.join(posix.dirname(from), target).replace(/\/$/, '')
  const hash = anchor === undefined ? '' : `#${anchor}`
  const page = pageFor(path)
  return page === undefined ? `${inRepository(path)}${hash}` : `/${addressOf(page)}${hash}`
}

/** A folder of docs/ leads to its first page. */
function pageFor(path: string): string | undefined {
  if (PAGES.includes(path)) return path
  return path.startsWith('docs/') ? PAGES.find((page) => posix.dirname(page) === path) : undefined
}

function inRepository(path: string): string {
  const kind = statSync(posix.join(ROOT, path)).isDirectory() ? 'tree' : 'blob'
  return `${REPOSITORY}/${kind}/main/${path}`
}
