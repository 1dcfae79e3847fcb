// The settings of VitePress. The pages are the Markdown files of the repository as they are: `map.ts` says which, and their links are
// resolved while they are rendered, so no page has a second copy. Anchors are those of GitHub.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { defineConfig, type DefaultTheme, type MarkdownOptions } from 'vitepress'
import { slugOf, titleOf } from '../scripts/markdown.ts'
import { targetOf } from './links.ts'
import {
  addressOf,
  GROUPS,
  LANDING,
  PAGES,
  pagesOf,
  REPOSITORY,
  ROOT,
  type Entry,
  type Group,
} from './map.ts'

type Renderer = Parameters<NonNullable<MarkdownOptions['config']>>[0]
type Environment = { readonly path: string; readonly realPath?: string }

const SHOWN = new Set([LANDING, ...PAGES])
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='%232f5bea' stroke-width='2.6' stroke-linecap='round'%3E%3Cpath d='M3 7h18M3 12h12M3 17h7'/%3E%3C/svg%3E"

const SEARCH: DefaultTheme.LocalSearchOptions = {
  detailedView: true, // most words are in the text, not in a heading
  miniSearch: {
    searchOptions: {
      /** Explanations come before reasons and history. Runs in the browser, so it uses nothing from this file. */
      boostDocument: (address: string) => {
        if (address.startsWith('/glossary')) return 4
        return /^\/(?:decisions|changelog|bench|architecture)/.test(address) ? 0.3 : 1
      },
    },
  },
}

export const config = defineConfig({
  title: 'Fleetline',
  description:
    'Durable AI-agent conversations, and the work behind them, on a fleet of Node.js pods and PostgreSQL',
  lang: 'en',
  head: [['link', { rel: 'icon', href: ICON }]],
  srcDir: '..',
  srcExclude: globSync('**/*.md', { cwd: ROOT, exclude: ['**/node_modules'] }).filter(
    (path) => !SHOWN.has(path),
  ),
  rewrites: addressOf,
  ignoreDeadLinks: 'localhostLinks', // addresses of a dev fleet
  outDir: 'dist',
  cacheDir: 'node_modules/.cache',
  vite: { publicDir: false },
  vue: {
    template: {
      transformAssetUrls: { img: ['src'], source: ['src'], object: ['data'] },
    },
  },
  markdown: {
    attrs: { disable: true }, // GitHub shows braces as they are
    anchor: { slugify: slugOf },
    config: (renderer) => {
      resolveLinks(renderer)
      showBraces(renderer)
      embedDiagrams(renderer)
    },
  },
  transformPageData: ({ filePath, frontmatter }) => {
    if (filePath.startsWith('docs/reference/')) frontmatter['pageClass'] = 'wide' // for its tables
    if (!/^## /m.test(readFileSync(join(ROOT, filePath), 'utf8'))) frontmatter['aside'] = false // nothing to list there
  },
  themeConfig: {
    nav: GROUPS.map(navOf),
    sidebar: GROUPS.map(({ name, entries }) => ({
      text: name,
      collapsed: true, // except for the group of the page
      items: entries.map(itemOf),
    })),
    outline: [2, 3],
    search: { provider: 'local', options: SEARCH },
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    editLink: { pattern: `${REPOSITORY}/edit/main/:path`, text: 'Edit this page' },
  },
})

/** A group is active on all its pages. */
function navOf({ name, entries }: Group): DefaultTheme.NavItemWithLink {
  const pages = entries.flatMap(pagesOf).map(addressOf)
  const shown = pages.map((path) => path.replace(/(?:(^|\/)index)?\.md$/, '$1'))
  return { text: name, link: `/${pages[0]!}`, activeMatch: `^/(?:${shown.join('|')})$` }
}

function itemOf(entry: Entry): DefaultTheme.SidebarItem {
  if (typeof entry === 'string') return { text: shortTitleOf(entry), link: `/${addressOf(entry)}` }
  if ('path' in entry) return { text: entry.name, link: `/${addressOf(entry.path)}` }
  return { text: entry.name, collapsed: true, items: pagesOf(entry).map(itemOf) }
}

/** The title of a page up to its first colon. */
function shortTitleOf(path: string): string {
  return titleOf(readFileSync(join(ROOT, path), 'utf8')).split(':')[0]!
}

/** Before VitePress looks at them: it checks the links and adds the base of the site. */
function resolveLinks(renderer: Renderer): void {
  renderer.core.ruler.push('links_of_the_repository', ({ tokens, env }) => {
    const { path, realPath = path } = env as Environment
    for (const token of tokens.flatMap(({ children }) => children ?? []))
      if (token.type === 'link_open')
        token.attrSet('href', targetOf(relative(ROOT, realPath), token.attrGet('href')!))
  })
}

/** To Vue, two braces begin an expression; GitHub shows them. */
function showBraces(renderer: Renderer): void {
  const { rules } = renderer.renderer
  for (const kind of ['text', 'code_inline']) {
    const show = rules[kind]!
    rules[kind] = (...words) => show(...words).replaceAll('{{', '&#123;&#123;')
  }
}

/** Shows an SVG picture as a document of its own, so that its text can be selected. A narrow page scrolls it. */
function embedDiagrams(renderer: Renderer): void {
  const showPicture = renderer.renderer.rules.image!
  renderer.renderer.rules.image = (tokens, index, options, env, self) => {
    const [source, text] = [tokens[index]!.attrGet('src')!, renderer.utils.escapeHtml(tokens[index]!.content)]
    if (!source.endsWith('.svg')) return showPicture(tokens, index, options, env, self)
    const { path, realPath = path } = env as Environment
    const picture = readFileSync(join(dirname(realPath), source), 'utf8')
    const [, width, height] = /viewBox="0 0 (\d+) (\d+)"/.exec(picture)!
    return `<span class="diagram" tabindex="0"><object type="image/svg+xml" data="./${source}" width="${width}" height="${height}" aria-label="${text}">${text}</object></span>`
  }
}
