// A page of docs/guides as a test reads it: its blocks, and what they print without what differs each time.

/** What stands between the fences, and the language behind the first. */
export type Block = { readonly language: string; readonly text: string }

/** Of a section, or of the whole page. */
export function blocksIn(page: string, section?: string): Block[] {
  const text = section === undefined ? page : (page.split(`\n## ${section}\n`)[1] ?? '').split('\n## ')[0]!
  const found = text.matchAll(/```(\w+)\n([^]*?)```/g)
  return Array.from(found, ([, language, block]) => ({ language: language!, text: block! }))
}

export function isCode({ language }: Block): boolean {
  return ['sh', 'js', 'sql'].includes(language)
}

export function joined(blocks: readonly Block[]): string {
  return blocks.map(({ text }) => text).join('')
}

/** As the page prints it: ids and times are others each time, and a terminal has wider columns than a pipe. */
export function plain(output: string): string {
  return output
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[a-z]{3}_[0-9a-f]{36}\b|[0-9a-f]{32}/g, 'ID')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/[\t ]+/g, ' ')
    .trim()
}
