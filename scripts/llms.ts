// llms.txt: every page of the documentation with what it is about, for programs that read. It is at the root of this repository and of the
// package `fleetline`, so its links work in both.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const DECISIONS = 'docs/decisions/'
const HEAD = `# Fleetline

> Durable AI-agent conversations, and the work behind them, on identical Node.js pods that share nothing but PostgreSQL.

Install it with \`npm install fleetline\`, and run \`npx fleetline dev\`: a fleet for development on this machine, with a PostgreSQL of its own.
\`npm create fleetline\` makes an app from a template. Every command has \`--help\` and \`--json\`.
`
const SECTIONS = [
  ['Guides', 'docs/guides/*.md'],
  ['Reference', 'docs/reference/*.md'],
  ['Words, promises and pictures', 'docs/*.md'],
  ['Other systems', 'docs/compare/*.md'],
  ['Decisions', `${DECISIONS}*.md`],
] as const

export const LLMS_FILE = join(ROOT, 'llms.txt')

export function llmsText(): string {
  const sections = SECTIONS.map(([title, pattern]) => {
    const pages = globSync(pattern, { cwd: ROOT }).toSorted().map(lineOf)
    return `## ${title}\n\n${pages.join('\n')}\n`
  })
  return [HEAD, ...sections].join('\n')
}

function lineOf(path: string): string {
  const text = readFileSync(join(ROOT, path), 'utf8')
  const title = /^# (.+)$/m.exec(text)?.[1] ?? path
  const about = path.startsWith(DECISIONS) ? '' : `: ${firstSentence(text)}` // the title of a decision says what it is
  return `- [${title}](${path})${about}`
}

/** Of the first paragraph, as plain text. */
function firstSentence(text: string): string {
  const paragraphs = text
    .replaceAll(/<!--[^]*?-->/g, '')
    .split(/\n\s*\n/)
    .filter((one) => /^[A-Z`*["]/.test(one.trim()))
  const words = (paragraphs[0] ?? '')
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/\s+/g, ' ')
    .trim()
  return /^.*?\.(?= |$)/.exec(words)?.[0] ?? words
}
