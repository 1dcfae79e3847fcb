// The rules of the pages in docs/compare. They are functions over texts, so that a test can show that mutants break the rules.

const HEADING = /^## (.+)$/gm
const PEER = /^Choose (?!Fleetline\b).+ when$/
const REFERENCE = /\[(\d+)\](?!\()/g
const SOURCE = /^(\d+)\. \[[^\]]+\]\((\S+)\)/gm

/** Returns one sentence for each broken rule. */
export function faultsOf(page: string): string[] {
  const sections = sectionsOf(page)
  const peers = [...sections].filter(([name]) => PEER.test(name))
  const sources = Array.from(
    (sections.get('Sources') ?? '').matchAll(SOURCE),
    ([, n, url]) => [n!, url!] as const,
  )
  const used = new Set([...page.matchAll(REFERENCE)].map(([, n]) => n!))
  return [
    ...['Choose Fleetline when', 'Side by side', 'Sources']
      .filter((name) => !sections.has(name))
      .map((name) => `there is no section ${name}`),
    ...(peers.length === 0 ? ['there is no section Choose … when for the other system'] : []),
    ...peers.flatMap(([name, text]) =>
      bulletsOf(text)
        .filter(lacksReference)
        .map((bullet) => `${name}: no source: ${bullet}`),
    ),
    ...claimsOf(sections.get('Side by side') ?? '')
      .filter(lacksReference)
      .map((claim) => `Side by side: no source: ${claim}`),
    ...sources.filter(([n], index) => n !== `${index + 1}`).map(([n]) => `source ${n} is out of order`),
    ...sources.filter(([, url]) => !url.startsWith('https://')).map(([n]) => `source ${n} has no https URL`),
    ...sources.filter(([n]) => !used.has(n)).map(([n]) => `source ${n} is not used`),
    ...[...used].filter((n) => !sources.some(([other]) => other === n)).map((n) => `[${n}] is not a source`),
  ]
}

function sectionsOf(page: string): ReadonlyMap<string, string> {
  const headings = [...page.matchAll(HEADING)]
  return new Map(
    headings.map((heading, index) => {
      const end = headings[index + 1]?.index ?? page.length
      return [heading[1]!, page.slice(heading.index + heading[0].length, end)]
    }),
  )
}

function bulletsOf(text: string): string[] {
  return text.split(/^- /m).slice(1)
}

/** What a table says about other systems: the cells between the first column and the last one, which is Fleetline. */
function claimsOf(text: string): string[] {
  const rows = text.split('\n').filter((line) => line.startsWith('|'))
  return rows.slice(2).flatMap((row) => row.split('|').slice(2, -2))
}

function lacksReference(text: string): boolean {
  return !/\[\d+\](?!\()/.test(text)
}
