// Assembles chunks into a message: the same one that the AI SDK's own reducer makes (a test compares the two).
//
//   chunk                       the message
//   start, finish, message-     takes their metadata: objects merge, everything else is replaced; start may set the id
//   metadata
//   start-step                  gets a part that marks the step
//   reset-step                  loses the parts after the last such mark, and no part is open any more
//   text-start, reasoning-start gets a part, which is open under the chunk's id
//   …-delta, …-end              the open part grows, or is done; rejected without an open part
//   data-…                      gets the chunk as a part; or its data replaces that of the part with the same type and id
//   tool-…                      gets the call as a part, or changes it: tool-parts.ts
//   file, source-url, …         gets the chunk as a part
//   data-… that is transient,   does not change
//   finish-step, abort, error
import type { Chunk, DataChunk, StepChunk, TextChunk, ToolChunk, WholeChunk } from './chunk.ts'
import { isFields, PROTOTYPE_KEYS } from './json.ts'
import type { Message, Metadata, Part } from './message.ts'
import { createTextParts } from './text-parts.ts'
import { createToolParts } from './tool-parts.ts'

export type Assembler = {
  /** Throws a ChunkError and changes nothing if the chunk is not allowed at this point. */
  readonly push: (chunk: Chunk) => void
  /** How many parts the message has so far. */
  readonly length: () => number
  /** The message so far. Later chunks do not change the returned value. */
  readonly message: () => Message
}

type Fields = Record<string, unknown>

/** The fields that a part gets from a chunk which is a whole part, if the chunk has them. */
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
  const data = new Map<string, Fields>() // only those with an id
  const [texts, tools] = [createTextParts(parts), createToolParts(parts)]
  let [id, metadata]: [string, Metadata | undefined] = [messageId, undefined]

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
    if (isWhole(chunk)) return void parts.push(wholeOf(chunk))
    switch (chunk.type) {
      case 'start':
        id = chunk.messageId ?? id
        return merge(chunk.messageMetadata)
      case 'finish':
      case 'message-metadata':
        return merge(chunk.messageMetadata)
      case 'abort':
      case 'error':
        return undefined
      case 'start-step':
      case 'finish-step':
      case 'reset-step':
        return step(chunk.type)
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
  }
}

function wholeOf(chunk: WholeChunk): Fields {
  const fields: Fields = { ...chunk }
  const kept = WHOLE[chunk.type].filter((name) => fields[name] !== undefined)
  return { type: chunk.type, ...Object.fromEntries(kept.map((name) => [name, fields[name]])) }
}

function isWhole(chunk: Chunk): chunk is WholeChunk {
  return Object.hasOwn(WHOLE, chunk.type)
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

/** Merges deeply where both values are objects. Skips keys that could reach a prototype. */
function merged(base: Metadata, more: Metadata): Metadata {
  const entries = Object.entries(more)
    .filter(([key, value]) => value !== undefined && !PROTOTYPE_KEYS.has(key))
    .map(([key, value]) => {
      const before = Object.hasOwn(base, key) ? base[key] : undefined
      return [key, isFields(before) && isFields(value) ? merged(before, value) : value] as const
    })
  return { ...base, ...Object.fromEntries(entries) }
}
