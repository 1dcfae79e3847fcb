// Draws a table of participants and steps as a sequence diagram in SVG. Text is text, so it can be selected and read aloud. Colours
// follow the reader's preference for light or dark; the background is drawn, so it fits on any page. Pure.

/** `hint` is an arrow that may be lost. `note` is what one participant does by itself. `event` happens to all. */
export type Step = Arrow | { readonly at: string; readonly note: string } | { readonly event: string }
type Arrow = {
  readonly from: string
  readonly to: string
  readonly text: string
  readonly kind?: 'hint' | 'refused'
}
export type Diagram = {
  readonly title: string
  readonly participants: readonly string[]
  readonly steps: readonly Step[]
}
type Drawn = { readonly svg: string; readonly height: number }

const COLUMN = 124
const HEAD = { top: 12, height: 34, gap: 14 }
const LINE = 16
const LETTER = 7 // the usual width of a character in a wide font
const NOTE = { width: 116, padding: 7 }
const GAP = 12 // after each step

const STYLE = `
.ground{fill:#f6f8fa}.box{fill:#fff;stroke:#c8d1da}.life{stroke:#c8d1da}.arrow{stroke:#57606a;stroke-width:1.4}.tip{fill:#57606a}
.hint{stroke-dasharray:5 4}.refused{stroke:#c62f2f}.tip.refused{fill:#c62f2f;stroke:none}.note{fill:#eaf1fb;stroke:#a9c4ea}.event{fill:#fbeee2;stroke:#e3b98f}
text{fill:#1f2328;font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
.name{font-weight:600}.label{paint-order:stroke;stroke:#f6f8fa;stroke-width:5px;stroke-linejoin:round}.number{fill:#2f5bea;font-weight:600}
@media (prefers-color-scheme:dark){
.ground{fill:#161b22}.box{fill:#21262d;stroke:#444c56}.life{stroke:#444c56}.arrow{stroke:#9ea7b3}.tip{fill:#9ea7b3}
.refused{stroke:#ff7b72}.tip.refused{fill:#ff7b72;stroke:none}.note{fill:#17263c;stroke:#2f4b73}.event{fill:#33261a;stroke:#6d4c2c}
text{fill:#e6edf3}.label{stroke:#161b22}.number{fill:#8aa9ff}}`

export function drawSequence({ title, participants, steps }: Diagram): string {
  const width = participants.length * COLUMN
  const xOf = (name: string) => {
    const index = participants.indexOf(name)
    if (index < 0) throw new Error(`${title}: ${name} does not take part`)
    return (index + 0.5) * COLUMN
  }
  let y = HEAD.top + HEAD.height + HEAD.gap
  let number = 0
  const drawn = steps.map((step) => {
    if ('from' in step) number += 1
    const { svg, height } = drawStep(step, { y, width, xOf, number })
    y += height + GAP
    return svg
  })
  const height = y + HEAD.gap
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title">
<title id="title">${escape(title)}</title>
<style>${STYLE}
</style>
<defs>${drawTip('tip')}${drawTip('tip refused')}</defs>
<rect class="ground" width="${width}" height="${height}"/>
${participants.map((name) => drawParticipant(name, xOf(name), height)).join('\n')}
${drawn.join('\n')}
</svg>
`
}

/** The end of an arrow, by its classes. */
function drawTip(classes: string): string {
  const id = classes.replace(' ', '-')
  return `<marker id="${id}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="${classes}" d="M0 0L8 4L0 8Z"/></marker>`
}

type Place = {
  readonly y: number
  readonly width: number
  readonly xOf: (name: string) => number
  readonly number: number
}

function drawStep(step: Step, place: Place): Drawn {
  if ('event' in step) return drawEvent(step.event, place)
  if ('note' in step) return drawNote(step.note, place.xOf(step.at), place.y)
  return drawArrow(step, place)
}

function drawParticipant(name: string, x: number, height: number): string {
  const { top, height: tall } = HEAD
  const width = COLUMN - 12
  return `<path class="life" d="M${x} ${top + tall}V${height - HEAD.gap}"/>
<rect class="box" x="${x - width / 2}" y="${top}" width="${width}" height="${tall}" rx="6"/>
<text class="name" x="${x}" y="${top + tall / 2 + 5}" text-anchor="middle">${escape(name)}</text>`
}

/** The label is above the arrow. Its first line begins with the number of the step. */
function drawArrow({ from, to, text, kind }: Arrow, { y, xOf, number }: Place): Drawn {
  const [start, end] = [xOf(from), xOf(to)]
  const lines = linesOf(`${number} ${text}`, Math.abs(end - start) - 12)
  const height = lines.length * LINE + 8
  const middle = (start + end) / 2
  const labels = lines.map((line, index) => {
    const shown =
      index === 0
        ? escape(line).replace(/^\d+/, (digits) => `<tspan class="number">${digits}</tspan>`)
        : escape(line)
    return `<text class="label" x="${middle}" y="${y + 12 + index * LINE}" text-anchor="middle">${shown}</text>`
  })
  const inset = start < end ? 3 : -3
  const tip = kind === 'refused' ? 'tip-refused' : 'tip'
  const arrow = `<path class="arrow${kind ? ` ${kind}` : ''}" d="M${start + inset} ${y + height}H${end - inset}" marker-end="url(#${tip})"/>`
  return { svg: [...labels, arrow].join('\n'), height }
}

function drawNote(note: string, x: number, y: number): Drawn {
  const lines = linesOf(note, NOTE.width - NOTE.padding)
  return drawPanel('note', lines, { x, y, width: NOTE.width })
}

function drawEvent(event: string, { y, width }: Place): Drawn {
  const room = width - 24
  return drawPanel('event', linesOf(event, room - 2 * NOTE.padding), { x: width / 2, y, width: room })
}

function drawPanel(
  kind: string,
  lines: readonly string[],
  { x, y, width }: { readonly x: number; readonly y: number; readonly width: number },
): Drawn {
  const height = lines.length * LINE + 2 * NOTE.padding
  const texts = lines.map((line, index) => {
    const base = y + NOTE.padding + 12 + index * LINE
    return `<text x="${x}" y="${base}" text-anchor="middle">${escape(line)}</text>`
  })
  const box = `<rect class="${kind}" x="${x - width / 2}" y="${y}" width="${width}" height="${height}" rx="5"/>`
  return { svg: [box, ...texts].join('\n'), height }
}

/** Breaks a text into as few lines as fit into a width, of about the same length. */
function linesOf(text: string, width: number): string[] {
  let most = Math.floor(width / LETTER)
  const lines = breakAt(text, most)
  while (most > 1 && breakAt(text, most - 1).length === lines.length) most -= 1
  return breakAt(text, most)
}

function breakAt(text: string, most: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && `${last} ${word}`.length <= most) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
