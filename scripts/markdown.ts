// Reads Markdown as GitHub does: headings, their anchors, and links to other files and headings. What stands in code is no heading and
// no link. Pure.

const FENCED = /^( *)(`{3,}|~{3,})[^]*?^ *\2[`~]* *$/gm
const CODE = /(`+)(?!`)(?:(?!\n\n)[^])+?(?<!`)\1(?!`)/g
const COMMENT = /<!--[^]*?-->/g
/** Of a link or a picture, of a reference, and of an element. */
const TARGETS = [
  /\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g,
  /^ *\[[^\]^]+\]: +<?(\S+?)>?(?: |$)/gm,
  /<[a-z]+\s[^>]*?(?:href|src|srcset)="([^"]+)"/g,
]
const OTHER_SITE = /^(?:[a-z][a-z+.-]*:|\/\/)/i

/** The targets of links to other files and to headings, as they are written. */
export function relativeLinksOf(page: string): string[] {
  const text = withoutFences(page).replaceAll(CODE, '')
  return TARGETS.flatMap((target) => Array.from(text.matchAll(target), ([, link]) => link!)).filter(
    (link) => !OTHER_SITE.test(link),
  )
}

/** The first heading, as plain text. */
export function titleOf(page: string): string {
  return plainText(headingsOf(page)[0] ?? '')
}

/** The anchors of a page. The second heading with the same text gets `-1`, the third `-2`. */
export function anchorsOf(page: string): ReadonlySet<string> {
  const anchors = new Set<string>()
  for (const heading of headingsOf(page)) {
    const slug = slugOf(plainText(heading))
    let [anchor, count] = [slug, 0]
    while (anchors.has(anchor)) anchor = `${slug}-${(count += 1)}`
    anchors.add(anchor)
  }
  return anchors
}

export function slugOf(text: string): string {
  return text
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-')
}

function headingsOf(page: string): string[] {
  return Array.from(withoutFences(page).matchAll(/^#{1,6} +(.+?)(?: +#+)? *$/gm), ([, text]) => text!)
}

function withoutFences(page: string): string {
  return page.replaceAll(FENCED, '').replaceAll(COMMENT, '')
}

function plainText(heading: string): string {
  return heading.replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '')
}
