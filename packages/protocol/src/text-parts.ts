// The text and reasoning parts of a message that is being assembled. A part is open under the id of its start until its end. A
// second start with the same id opens another part, and the older one stops growing.
import { ChunkError, type TextChunk } from './chunk.ts'

type Fields = Record<string, unknown>
type OpenPart = { type: string; text: string; state: string; [field: string]: unknown }

type TextParts = {
  readonly push: (chunk: TextChunk) => void
  /** Closes all open parts to further chunks. */
  readonly forget: () => void
}

export function createTextParts(parts: Fields[]): TextParts {
  const open = { text: new Map<string, OpenPart>(), reasoning: new Map<string, OpenPart>() }
  return {
    push: (chunk) => {
      const kind = chunk.type.startsWith('text') ? 'text' : 'reasoning'
      const described = chunk.providerMetadata && { providerMetadata: chunk.providerMetadata }
      if (chunk.type === 'text-start' || chunk.type === 'reasoning-start') {
        const named = kind === 'reasoning' ? { id: chunk.id } : {}
        const part: OpenPart = { type: kind, ...named, text: '', ...described, state: 'streaming' }
        open[kind].set(chunk.id, part)
        parts.push(part)
        return
      }
      const part = open[kind].get(chunk.id)
      if (!part) throw new ChunkError(`${chunk.type}: no ${kind} is open under its id`)
      Object.assign(part, described)
      if ('delta' in chunk) part.text += chunk.delta
      else {
        part.state = 'done'
        if ('citations' in chunk && chunk.citations) part['citations'] = chunk.citations
        open[kind].delete(chunk.id)
      }
    },
    forget: () => {
      open.text.clear()
      open.reasoning.clear()
    },
  }
}
