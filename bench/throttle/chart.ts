// A workload as a picture: for each entrant its limit, its calls in flight and its rejected calls, over time.
import type { Run, Sample } from './simulate.ts'
import type { Workload } from './workloads.ts'

type Shown = { readonly name: string; readonly run: Run }

const PANEL = { width: 300, height: 110, gap: 28, left: 44, top: 46 }
/** Values above `clipped` are drawn at the edge. Otherwise an entrant that sends far too much would hide the others. */
const ROWS = [
  { title: 'limit of all pods', of: ({ limit }: Sample) => limit, isOfCapacity: true, clipped: 240 },
  { title: 'in flight', of: ({ inFlight }: Sample) => inFlight, isOfCapacity: true, clipped: 240 },
  { title: 'refused a second', of: ({ refused }: Sample) => refused, isOfCapacity: false, clipped: 20 },
] as const
const INK = { text: '#24292f', faint: '#d0d7de', line: '#0969da', capacity: '#cf222e' }

export function chartOf({ name, what, endMs }: Workload, shown: readonly Shown[]): string {
  const width = PANEL.left + shown.length * (PANEL.width + PANEL.gap)
  const height = PANEL.top + ROWS.length * (PANEL.height + PANEL.gap)
  const panels = ROWS.flatMap((row, y) => {
    const all = shown.flatMap(({ run }) => run.samples.map(row.of))
    const highest = Math.max(1, ...all)
    const most = niceAbove(Math.min(highest, row.clipped))
    const edge = highest > most ? ` (what is above ${most}, at the edge)` : ''
    return shown.map(({ name: who, run }, x) => {
      const title = `${y === 0 ? `${who}: ` : ''}${row.title}${edge}`
      return panel({ x, y, title, most, endMs, samples: run.samples, row })
    })
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11" fill="${INK.text}">
<rect width="100%" height="100%" fill="#fff"/>
<text x="${PANEL.left}" y="18" font-size="14" font-weight="600">${name}: ${what}</text>
<text x="${width - PANEL.gap}" y="18" text-anchor="end" fill="${INK.capacity}">what the provider takes</text>
${panels.join('\n')}
</svg>
`
}

type Panel = {
  readonly x: number
  readonly y: number
  readonly title: string
  readonly most: number
  readonly endMs: number
  readonly samples: readonly Sample[]
  readonly row: (typeof ROWS)[number]
}

function panel({ x, y, title, most, endMs, samples, row }: Panel): string {
  const left = PANEL.left + x * (PANEL.width + PANEL.gap)
  const top = PANEL.top + y * (PANEL.height + PANEL.gap)
  const line = (of: (sample: Sample) => number) =>
    samples.map((sample) => {
      const across = (sample.ms / endMs) * PANEL.width
      const up = (Math.min(most, of(sample)) / most) * PANEL.height
      return `${across.toFixed(1)},${(PANEL.height - up).toFixed(1)}`
    })
  const drawn = (points: readonly string[], ink: string) =>
    `<polyline points="${points.join(' ')}" fill="none" stroke="${ink}" stroke-width="1.2"/>`
  const capacity = row.isOfCapacity
    ? drawn(
        line((sample) => sample.capacity),
        INK.capacity,
      )
    : ''
  return `<g transform="translate(${left} ${top})">
<text y="-6">${title}</text>
<path d="M0 0V${PANEL.height}H${PANEL.width}" fill="none" stroke="${INK.faint}"/>
<text x="-6" y="8" text-anchor="end">${most}</text><text x="-6" y="${PANEL.height}" text-anchor="end">0</text>
<text x="${PANEL.width}" y="${PANEL.height + 12}" text-anchor="end">${endMs / 1_000} s</text>
${capacity}${drawn(line(row.of), INK.line)}
</g>`
}

function niceAbove(value: number): number {
  const ten = 10 ** Math.floor(Math.log10(value))
  return [1, 2, 2.5, 5, 10].map((step) => step * ten).find((step) => step >= value)!
}
