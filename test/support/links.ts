// Finds links of Markdown files that lead nowhere. A function over texts, so that a test can show that mutants are found.
import { posix } from 'node:path'
import { anchorsOf, relativeLinksOf } from '../../scripts/markdown.ts'

/** Files by their path in the repository. `exists` is asked for everything that is not one of them. */
type Repository = {
  readonly pages: ReadonlyMap<string, string>
  readonly exists: (path: string) => boolean
}

/** Returns one sentence for each link whose file or heading is missing. */
export function deadLinksOf({ pages, exists }: Repository): string[] {
  return [...pages].flatMap(([from, text]) =>
    relativeLinksOf(text).flatMap((link) => {
      const [target = '', anchor] = decodeURI(link).split('#')
      const path = target === '' ? from : posix.join(posix.dirname(from), target)
      const fault = faultOf({ pages, exists }, path, anchor)
      return fault === undefined ? [] : [`${from}: ${link}: ${fault}`]
    }),
  )
}

function faultOf({ pages, exists }: Repository, path: string, anchor: string | undefined) {
  if (path.startsWith('/') || path.startsWith('..')) return 'leaves the repository'
  const page = pages.get(path)
  if (page === undefined && !exists(path)) return 'no such file'
  if (anchor === undefined) return undefined
  return page !== undefined && anchorsOf(page).has(anchor) ? undefined : 'no such heading'
}
