// Chunks become a message: the one that the AI SDK's own reducer makes of them (a test compares the two).
//
//   chunk                       the message
//   start, finish, message-     takes their metadata: objects merge, all else replaces; start may give the id
//   metadata
//   start-step                  gets a part that says so
//   reset-step                  loses the parts behind the last such part, and nothing is open any more
//   text-start, reasoning-start gets a part, which is open under the chunk's id
//   …-delta, …-end              the open part grows, or is done; without an open part they are refused
//   data-…                      gets the chunk as a part; or its data replaces that of the part of the same type and id
//   tool-…                      gets the call as a part, or changes it: tool-parts.ts
//   file, source-url, …         gets the chunk as a part
//   data-… that is transient,   stays as it is
//   finish-step, abort, error
import type { Chunk, DataChunk, FinishReason, StepChunk, TextChunk, ToolChunk, WholeChunk } from './chunk.ts'
import { isFields, PROTOTYPE_KEYS } from './json.ts'
import type { Message, Metadata, Part } from './message.ts'
import { createTextParts } from './text-parts.ts'
import { createToolParts } from './tool-parts.ts'

export type Assembler = {
  /** Throws a ChunkError, and changes nothing, if the chunk may not come now. */
  readonly push: (chunk: Chunk) => void
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
  /** The agent gave up by itself. */
  readonly isAborted?: boolean
  /** Of the last error chunk. */
  readonly errorText?: string
}

type Fields = Record<string, unknown>

/** What a chunk that is a part gives it: these fields, if it has them. */
export const WHOLE: Readonly<Record<WholeChunk['type'], readonly string[]>> = {
  file: ['mediaType', 'url', 'providerMetadata'],
  'reasoning-file': ['mediaType', 'url', 'providerMetadata'],
  'source-url': ['sourceId', 'url', 'title', 'providerMetadata'],
  'source-document': ['sourceId', 'mediaType', 'title', 'filename', 'providerMetadata'],
  custom: ['kind', 'providerMetadata'],
  'steering-message': ['id', 'parts'],
}

export function createAssembler(messageId: string): Assembler {
  const parts: Fields[] = []
  const data = new Map<string, Fields>() // those that have an id
  const [texts, tools] = [createTextParts(parts), createToolParts(parts)]
  let [id, metadata, end]: [string, Metadata | undefined, StreamEnd] = [
    messageId,
    undefined,
    { isFinished: false },
  ]

  const merge = (more: Metadata | null | undefined) => {
    if (more) metadata = metadata ? merged(metadata, more) : more
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
  const step = (type: StepChunk['type']) => {
    if (type === 'start-step') {
      parts.push({ type: 'step-start' })
      tools.startStep()
    }
    if (type !== 'reset-step') return
    const gone = new Set(parts.splice(1 + parts.findLastIndex((part) => part['type'] === 'step-start')))
    for (const [name, part] of data) if (gone.has(part)) data.delete(name)
    texts.forget()
    tools.forget(gone)
  }
  const push = (chunk: Chunk) => {
    if (isData(chunk)) return put(chunk)
    if (isText(chunk)) return texts.push(chunk)
    if (isTool(chunk)) return tools.push(chunk)
    switch (chunk.type) {
      case 'start':
        id = chunk.messageId ?? id
        return merge(chunk.messageMetadata)
      case 'finish': {
        const { finishReason = end.finishReason } = chunk
        end = { ...end, isFinished: true, ...(finishReason && { finishReason }) }
        return merge(chunk.messageMetadata)
      }
      case 'message-metadata':
        return merge(chunk.messageMetadata)
      case 'abort':
        return void (end = { ...end, isAborted: true })
      case 'error':
        return void (end = { ...end, errorText: chunk.errorText })
      case 'start-step':
      case 'finish-step':
      case 'reset-step':
        return step(chunk.type)
      case 'file':
      case 'reasoning-file':
      case 'source-url':
      case 'source-document':
      case 'custom':
      case 'steering-message':
        return void parts.push(wholeOf(chunk))
    }
  }
  return {
    push,
    length: () => parts.length,
    message: () => {
      tools.look()
      const copies = parts.map((part) => ({ ...part }) as Part)
      return { id, role: 'assistant', parts: copies, ...(metadata && { metadata }) }
    },
    end: () => end,
  }
}

function wholeOf(chunk: WholeChunk): Fields {
  const fields: Fields = { ...chunk }
  const kept = WHOLE[chunk.type].filter((name) => fields[name] !== undefined)
  return { type: chunk.type, ...Object.fromEntries(kept.map((name) => [name, fields[name]])) }
}

function isText(chunk: Chunk): chunk is TextChunk {
  return /^(?:text|reasoning)-(?:start|delta|end)$/.test(chunk.type)
}

function isTool(chunk: Chunk): chunk is ToolChunk {
  return chunk.type.startsWith('tool-')
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
