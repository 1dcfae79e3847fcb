// The map of the site: which Markdown files of the repository are its pages, in which group each stands, and under which address.
// A test fails if a page of docs/ is in no group, or in two.
import { globSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** Links to what is no page of the site lead here. The manifest of `fleetline` names the same repository. */
export const REPOSITORY = 'https://github.com/fleetline/fleetline'

/** A page, by its path in the repository; a page under a shorter name than its title; or all pages of a folder, collapsed. */
export type Entry =
  | string
  | { readonly path: string; readonly name: string }
  | { readonly folder: string; readonly name: string }
export type Group = { readonly name: string; readonly entries: readonly Entry[] }

export const ROOT: string = join(import.meta.dirname, '..')
export const LANDING = 'site/index.md'

export const GROUPS: readonly Group[] = [
  {
    name: 'Start',
    entries: [
      { path: 'README.md', name: 'Overview' },
      'docs/guides/dev.md',
      'docs/guides/sessions.md',
      'docs/guides/agents.md',
      'docs/guides/tasks.md',
    ],
  },
  {
    name: 'Build',
    entries: [
      'docs/guides/use-chat.md',
      { path: 'docs/guides/client.md', name: 'The client and its React hooks' },
      'docs/guides/assistant-ui.md',
      'docs/guides/inbox.md',
      'docs/guides/write-an-agent.md',
      'docs/guides/ag-ui.md',
      'docs/guides/long-conversations.md',
      'docs/guides/machines.md',
      { path: 'examples/chat/README.md', name: 'Example: a chat in React' },
      { path: 'examples/use-chat/README.md', name: 'Example: useChat' },
      { path: 'examples/assistant-ui/README.md', name: 'Example: assistant-ui' },
    ],
  },
  {
    name: 'Run',
    entries: [
      'docs/guides/doctor.md',
      'docs/guides/secure.md',
      'docs/guides/deploy.md',
      'docs/guides/throttle.md',
      'docs/guides/usage.md',
      'docs/guides/keep-and-erase.md',
      { path: 'SECURITY.md', name: 'Report a vulnerability' },
    ],
  },
  {
    name: 'Understand',
    entries: [
      'docs/how-it-works.md',
      'docs/glossary.md',
      'docs/invariants.md',
      'ARCHITECTURE.md',
      { path: 'bench/RESULTS.md', name: 'Results of the benchmarks' },
      { folder: 'docs/compare', name: 'Other systems' },
      { folder: 'docs/decisions', name: 'Decisions' },
    ],
  },
  {
    name: 'Reference',
    entries: [
      'docs/reference/commands.md',
      'docs/reference/config.md',
      'docs/reference/http.md',
      'docs/reference/socket.md',
      'docs/reference/metrics.md',
      'docs/reference/errors.md',
      'CHANGELOG.md',
      'CONTRIBUTING.md',
    ],
  },
]

/** The pages of an entry, by their paths in the repository. In a folder, its README comes first. */
export function pagesOf(entry: Entry): string[] {
  if (typeof entry === 'string') return [entry]
  if ('path' in entry) return [entry.path]
  const names = globSync('*.md', { cwd: join(ROOT, entry.folder) }).toSorted()
  const readme = names.filter((name) => name === 'README.md')
  return [...readme, ...names.filter((name) => name !== 'README.md')].map((name) => `${entry.folder}/${name}`)
}

/** All pages except for the landing page, in the order of the groups. */
export const PAGES: readonly string[] = GROUPS.flatMap(({ entries }) => entries.flatMap(pagesOf))

/** Where a page is in the site, with `.md` at the end: `docs/guides/tasks.md` is `guides/tasks.md`. */
export function addressOf(path: string): string {
  if (path === LANDING) return 'index.md'
  if (path === 'README.md') return 'overview.md'
  const folder = dirname(path).replace(/^docs(\/|$)/, '')
  const name = basename(path) === 'README.md' ? 'index.md' : basename(path)
  return join(folder, name).toLowerCase()
}
