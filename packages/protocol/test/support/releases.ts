// The streams of an agent that runs an older AI SDK: the chunks that this one's own schema takes, without the fields that a
// later release brought, in an order in which it writes them.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as ai from 'ai'
import type { Chunk } from '../../src/index.ts'
import { json, left } from './streams.ts'

export type SdkName = 'ai5' | 'ai6' | 'ai7'
/** What all releases have. */
export type Sdk = Pick<typeof ai, 'AbstractChat' | 'DefaultChatTransport' | 'readUIMessageStream'> & {
  readonly version: string
  readonly isKnown: (chunk: Chunk) => Promise<boolean>
}
type Module = Omit<Sdk, 'version' | 'isKnown'> & {
  readonly uiMessageChunkSchema: () => {
    readonly validate: (value: unknown) => Promise<{ readonly success: boolean }>
  }
}
type Release = {
  readonly read: typeof ai.readUIMessageStream
  readonly isKnown: Sdk['isKnown']
  readonly later: Later
}
type Loose = Readonly<Record<string, unknown>> & { readonly type: string }
type Later = Readonly<Record<string, readonly string[]>>

const ofTools = ['toolMetadata', 'title']
const DYNAMIC = 'of a dynamic tool'
/** Fields that the schema lets pass, and nobody reads. */
const LATER: Readonly<Record<string, Later>> = {
  ai5: {
    'text-end': ['citations'],
    file: ['providerMetadata'],
    'tool-input-start': [...ofTools, 'inputEncoding', 'providerMetadata'],
    'tool-input-available': ofTools,
    'tool-input-error': [...ofTools, 'providerMetadata'],
    'tool-output-available': ['toolMetadata', 'providerMetadata'],
    'tool-output-error': ['toolMetadata', 'providerMetadata'],
    [DYNAMIC]: ['providerExecuted'],
  },
  ai6: {
    'text-end': ['citations'],
    'tool-input-start': ['inputEncoding'],
    'tool-approval-request': ['reason', 'isAutomatic'],
  },
}

/** The newest is a dev dependency; `npm ci --prefix bench` installs the others. */
export async function sdkOf(name: SdkName): Promise<Sdk> {
  const folder = name === 'ai7' ? '' : 'bench/'
  const at = createRequire(join(import.meta.dirname, `../../../../${folder}package.json`))
  const found = name === 'ai7' ? 'ai' : name
  const sdk = (await import(pathToFileURL(at.resolve(found)).href)) as Module
  const { version } = at(`${found}/package.json`) as { readonly version: string }
  const schema = sdk.uiMessageChunkSchema()
  const { AbstractChat, DefaultChatTransport, readUIMessageStream } = sdk
  const isKnown = async (chunk: Chunk) => (await schema.validate(chunk)).success
  return { AbstractChat, DefaultChatTransport, readUIMessageStream, version, isKnown }
}

export async function releaseOf(name: 'ai5' | 'ai6'): Promise<Release> {
  const { readUIMessageStream: read, isKnown } = await sdkOf(name)
  return { read, isKnown, later: LATER[name]! }
}

/** What it could have written of this stream: what its own reducer takes. */
export async function writtenBy(release: Release, stream: readonly Chunk[]): Promise<Chunk[]> {
  const { read, isKnown, later } = release
  const [written, order] = [[] as Chunk[], createOrder()]
  for (const one of stream) {
    const fitting = order.fit(without(one, later[one.type]))
    const chunk = fitting && (without(fitting, fitting['dynamic'] ? later[DYNAMIC] : []) as Chunk)
    if (!chunk || !(await isKnown(chunk))) continue
    const { errors } = await left([...written, chunk], read)
    if (errors.length > [...written, chunk].filter(({ type }) => type === 'error').length) continue
    order.wrote(chunk)
    written.push(chunk)
  }
  return written
}

function without(chunk: Loose, fields: readonly string[] = []): Loose {
  const others = Object.entries(chunk).filter(([field]) => !fields.includes(field))
  return { type: chunk.type, ...Object.fromEntries(others) }
}

/** A text ends in its step; a call keeps its tool, and nothing follows on an input that was wrong. */
function createOrder() {
  const open = new Set<string>()
  const calls = new Map<unknown, { readonly tool: Loose; readonly isOver: boolean }>()
  const isOfTool = ({ type }: Loose, field: string) =>
    field === 'dynamic' && /^tool-(input|output)-(start|available|error)$/.test(type)
  const textOf = ({ type, id }: Loose) => `${type.split('-')[0]} ${id as string}`
  return {
    fit: (chunk: Loose): Loose | undefined => {
      if (/^(text|reasoning)-(delta|end)$/.test(chunk.type) && !open.has(textOf(chunk))) return undefined
      const call = calls.get(chunk['toolCallId'])
      if (call?.isOver) return undefined
      const same = call
        ? ['toolName', 'dynamic'].filter((field) => field in chunk || isOfTool(chunk, field))
        : []
      return Object.assign(
        {},
        chunk,
        ...same.map((field) => ({ [field]: call!.tool[field] ?? false })),
      ) as Chunk
    },
    wrote: (chunk: Loose): void => {
      if (/^(text|reasoning)-start$/.test(chunk.type)) open.add(textOf(chunk))
      if (chunk.type === 'finish-step') open.clear()
      const id = chunk['toolCallId']
      if (id === undefined) return
      const { tool, isOver } = calls.get(id) ?? { tool: chunk, isOver: false }
      calls.set(id, { tool, isOver: isOver || chunk.type === 'tool-input-error' })
    },
  }
}

/** Older releases keep an input that was wrong under another name. */
export function inNewWords(message: { readonly parts: readonly object[] }): unknown {
  const parts = (json(message.parts) as Record<string, unknown>[]).map(({ rawInput, ...part }) => {
    if (rawInput === undefined) return part
    const isWrong = String(part['state']).startsWith('output-') && part['input'] === undefined
    return { ...part, [isWrong ? 'input' : 'rawInput']: rawInput }
  })
  return json({ ...message, parts })
}
