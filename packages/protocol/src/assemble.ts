// Chunks become a message: the one that the AI SDK's own reducer makes of them (a test compares the two).
//
//   chunk                       the message
//   start, finish               takes their metadata: objects merge, all else replaces; start may give the id
//   start-step                  gets a part that says so
//   reset-step                  loses the parts behind the last such part, and nothing is open any more
//   text-start, reasoning-start gets a part, which is open under the chunk's id
//   …-delta, …-end              the open part grows, or is done; without an open part they are refused
//   data-…                      gets the chunk as a part; or its data replaces that of the part of the same type and id
//   data-… that is transient, finish-step, error   stays as it is
import { ChunkError, type Chunk, type DataChunk, type FinishReason, type TextChunk } from './chunk.ts'
import { isFields, PROTOTYPE_KEYS } from './json.ts'
import type { Message, Metadata, Part } from './message.ts'

export type Assembler = {
  /** Throws a ChunkError, and changes nothing, if the chunk may not come now. */
  readonly push: (chunk: Chunk) => void
  /** What would close all that is open: pushed now, the message is one that may be stored. */
  readonly closing: () => Chunk[]
  /** How many parts it has so far. */
  readonly length: () => number
  /** So far; what is pushed later does not change it. */
  readonly message: () => Message
  /** How the stream says that it ended. */
  readonly end: () => StreamEnd
}
export type StreamEnd = {
  readonly isFinished: boolean
  readonly finishReason?: FinishReason
  /** Of the last error chunk. */
  readonly errorText?: string
}

type Fields = Record<string, unknown>
type OpenPart = { type: string; text: string; state: string; [field: string]: unknown }

export function createAssembler(messageId: string): Assembler {
  const parts: Fields[] = []
  const data = new Map<string, Fields>() // those that have an id
  const open = { text: new Map<string, OpenPart>(), reasoning: new Map<string, OpenPart>() }
  let [id, metadata, end]: [string, Metadata | undefined, StreamEnd] = [
    messageId,
    undefined,
    { isFinished: false },
  ]

  const merge = (more: Metadata | null | undefined) => {
    if (more) metadata = metadata ? merged(metadata, more) : more
  }
  const grow = (chunk: TextChunk) => {
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
  }
  const put = (chunk: DataChunk) => {
    if (chunk.transient) return
    const name = chunk.id === undefined ? undefined : JSON.stringify([chunk.type, chunk.id])
    const before = name === undefined ? undefined : data.get(name)
    if (before) {
      before['data'] = chunk.data
      return
    }
    const part = { ...chunk }
    parts.push(part)
    if (name !== undefined) data.set(name, part)
  }
  const resetStep = () => {
    const gone = new Set(parts.splice(1 + parts.findLastIndex(({ type }) => type === 'step-start')))
    for (const [name, part] of data) if (gone.has(part)) data.delete(name)
    open.text.clear()
    open.reasoning.clear()
  }
  return {
    push: (chunk) => {
      if (isData(chunk)) return put(chunk)
      switch (chunk.type) {
        case 'start':
          id = chunk.messageId ?? id
          return merge(chunk.messageMetadata)
        case 'finish': {
          const { finishReason = end.finishReason } = chunk
          end = { ...end, isFinished: true, ...(finishReason && { finishReason }) }
          return merge(chunk.messageMetadata)
        }
        case 'error':
          end = { ...end, errorText: chunk.errorText }
          return
        case 'start-step':
          return void parts.push({ type: 'step-start' })
        case 'reset-step':
          return resetStep()
        case 'finish-step':
          return
        case 'text-start':
        case 'text-delta':
        case 'text-end':
        case 'reasoning-start':
        case 'reasoning-delta':
        case 'reasoning-end':
          return grow(chunk)
      }
    },
    closing: () => [
      ...Array.from(open.text.keys(), (id): Chunk => ({ type: 'text-end', id })),
      ...Array.from(open.reasoning.keys(), (id): Chunk => ({ type: 'reasoning-end', id })),
    ],
    length: () => parts.length,
    message: () => ({
      id,
      role: 'assistant',
      parts: parts.map((part) => ({ ...part }) as Part),
      ...(metadata && { metadata }),
    }),
    end: () => end,
  }
}

function isData(chunk: Chunk): chunk is DataChunk {
  return chunk.type.startsWith('data-')
}

/** Deep where both are objects; what would reach a prototype is left out. */
function merged(base: Metadata, more: Metadata): Metadata {
  const entries = Object.entries(more)
    .filter(([key, value]) => value !== undefined && !PROTOTYPE_KEYS.has(key))
    .map(([key, value]) => {
      const before = Object.hasOwn(base, key) ? base[key] : undefined
      return [key, isFields(before) && isFields(value) ? merged(before, value) : value] as const
    })
  return { ...base, ...Object.fromEntries(entries) }
}
