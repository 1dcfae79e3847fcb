// A message as assistant-ui shows it. Guarantees:
//   the same message becomes the same object, until the error of its turn is known
//   every message can be shown, whatever its parts contain: members and agents may send parts that we do not know
//
//   our part                                     in assistant-ui
//   text, reasoning                              text, reasoning; left out of a reply if blank
//   file, reasoning-file                         image, or file; of a user: an attachment
//   source-url, source-document                  source
//   tool-NAME, dynamic-tool                      tool-call, without its approval: nobody can answer it yet
//   data-NAME                                    data, of this name
//   step-start                                   left out
//   any other, or one without its fields         data: the name is its type, the data is the whole part
import { isFields, type Part, type Turn } from '@fleetline/protocol'
import type { Message } from './view.ts'

type Json = null | boolean | number | string | readonly Json[] | JsonObject
type JsonObject = { readonly [key: string]: Json }

type Text = {
  readonly type: 'text'
  readonly text: string
  readonly status?: PartStatus
}
type Reasoning = { readonly type: 'reasoning'; readonly text: string; readonly status?: PartStatus }
type PartStatus = { readonly type: 'running' | 'complete' }
type Image = { readonly type: 'image'; readonly image: string; readonly filename?: string }
type File = {
  readonly type: 'file'
  readonly data: string
  readonly mimeType: string
  readonly sourceType: 'url'
  readonly filename?: string
}
type Source = { readonly type: 'source'; readonly id: string } & (
  | { readonly sourceType: 'url'; readonly url: string; readonly title?: string }
  | {
      readonly sourceType: 'document'
      readonly title: string
      readonly mediaType: string
      readonly filename?: string
    }
)
type ToolCall = {
  readonly type: 'tool-call'
  readonly toolCallId: string
  readonly toolName: string
  readonly args: JsonObject
  readonly argsText: string
  /** Never undefined once the call has ended: assistant-ui takes such a call for a running one. */
  readonly result?: unknown
  readonly isError?: boolean
}
type Data = { readonly type: 'data'; readonly name: string; readonly data: unknown }
type UserPart = Text | Data
type ReplyPart = Text | Reasoning | Image | File | Source | ToolCall | Data
type Attachment = {
  readonly id: string
  readonly type: 'image' | 'file'
  readonly name: string
  readonly contentType: string
  readonly status: { readonly type: 'complete' }
  readonly content: (Image | File)[]
}

/** In `metadata.custom`: the metadata of the message, and the message itself, with what assistant-ui has no place for. */
type Custom = { readonly fleetline: Message; readonly [field: string]: unknown }
type Status =
  | { readonly type: 'running' }
  | { readonly type: 'complete'; readonly reason: 'stop' }
  | { readonly type: 'incomplete'; readonly reason: 'cancelled' }
  | { readonly type: 'incomplete'; readonly reason: 'error'; readonly error?: string }

type Common = { readonly id: string; readonly createdAt: Date }
/** A `ThreadMessage` of assistant-ui. */
export type ThreadMessage =
  | (Common & {
      readonly role: 'system'
      readonly content: readonly [Text]
      readonly metadata: { readonly custom: Custom }
    })
  | (Common & {
      readonly role: 'user'
      readonly content: readonly UserPart[]
      readonly attachments: readonly Attachment[]
      readonly metadata: { readonly custom: Custom }
    })
  | (Common & {
      readonly role: 'assistant'
      readonly content: readonly ReplyPart[]
      readonly status: Status
      readonly metadata: {
        readonly custom: Custom
        readonly unstable_state: null
        readonly unstable_annotations: readonly []
        readonly unstable_data: readonly []
        readonly steps: readonly []
      }
    })

type Known = { readonly error: string | undefined; readonly shown: ThreadMessage }
const known = new WeakMap<Message, Known>()

/** `turn`: the newest one; if it writes this message, it says since when, and why it failed. */
export function threadMessageOf(message: Message, turn: Turn | null): ThreadMessage {
  const own = turn?.message === message.id ? turn : undefined
  const error = own?.error?.message
  const before = known.get(message)
  if (before && (error === undefined || error === before.error)) return before.shown // a later turn does not take the error away
  const at = message.at ?? own?.startedAt
  const shown = shownAs(message, at === undefined ? new Date() : new Date(at), error)
  known.set(message, { error, shown })
  return shown
}

function shownAs(message: Message, createdAt: Date, error: string | undefined): ThreadMessage {
  const { id, role, parts } = message
  const common = { id, createdAt }
  const custom = { ...message.metadata, fleetline: message }
  switch (role) {
    case 'system': {
      const text = parts.map((part) => textIn(part, 'text') ?? '').join('\n\n') // assistant-ui allows one text only
      return { ...common, role, content: [{ type: 'text', text }], metadata: { custom } }
    }
    case 'user':
      return { ...common, role, ...userContentOf(parts), metadata: { custom } }
    case 'assistant':
      return {
        ...common,
        role,
        content: replyOf(message),
        status: statusOf(message, error),
        metadata: { custom, unstable_state: null, unstable_annotations: [], unstable_data: [], steps: [] },
      }
  }
}

function statusOf({ status, delivery }: Message, error: string | undefined): Status {
  if (status === 'stopped') return { type: 'incomplete', reason: 'cancelled' }
  if (status === 'failed')
    return { type: 'incomplete', reason: 'error', ...(error !== undefined && { error }) }
  return delivery === 'open' ? { type: 'running' } : { type: 'complete', reason: 'stop' }
}

function userContentOf(parts: readonly Part[]) {
  const content: UserPart[] = []
  const attachments: Attachment[] = []
  for (const part of parts) {
    const file = fileOf(part)
    const text = part.type === 'text' ? textIn(part, 'text') : undefined
    if (file) attachments.push(attachmentOf(file, part, `${attachments.length}`))
    else if (text !== undefined) content.push({ type: 'text', text })
    else if (part.type !== 'step-start') content.push(dataOf(part))
  }
  return { content, attachments }
}

function attachmentOf(file: Image | File, part: Part, id: string): Attachment {
  const { type, filename: name = type } = file
  const contentType = String(part['mediaType'])
  return { id, type, name, contentType, status: { type: 'complete' }, content: [file] }
}

function replyOf({ parts, delivery }: Message): ReplyPart[] {
  const calls = new Set<string>()
  return parts.flatMap((part): ReplyPart[] => {
    const { type } = part
    const text = type === 'text' || type === 'reasoning' ? textIn(part, 'text') : undefined
    if (type === 'step-start' || text?.trim() === '') return []
    if (text !== undefined) return [{ type: type as 'text', text, ...progressOf(part, delivery) }]
    return [fileOf(part) ?? sourceOf(part) ?? callOf(part, calls) ?? dataOf(part)]
  })
}

/** Of a part that is being written or is done while the message goes on. Otherwise assistant-ui derives it from the message. */
function progressOf({ state }: Part, delivery: Message['delivery']): { readonly status?: PartStatus } {
  if (delivery !== 'open' || state === undefined) return {}
  return { status: { type: state === 'streaming' ? 'running' : 'complete' } }
}

function fileOf(part: Part): Image | File | undefined {
  const [url, mimeType] = [textIn(part, 'url'), textIn(part, 'mediaType')]
  if (!/^(?:reasoning-)?file$/.test(part.type) || url === undefined || mimeType === undefined)
    return undefined
  const named = fieldIn(part, 'filename')
  const isImage = mimeType.startsWith('image/') && /^(?:https:|blob:|data:image\/)/i.test(url) // assistant-ui shows no others
  return isImage
    ? { type: 'image', image: url, ...named }
    : { type: 'file', data: url, mimeType, sourceType: 'url', ...named }
}

function sourceOf(part: Part): Source | undefined {
  const [id, url, title, mediaType] = ['sourceId', 'url', 'title', 'mediaType'].map((name) =>
    textIn(part, name),
  )
  if (part.type === 'source-url' && id !== undefined && url !== undefined)
    return { type: 'source', sourceType: 'url', id, url, ...fieldIn(part, 'title') }
  if (part.type !== 'source-document' || id === undefined || title === undefined || mediaType === undefined)
    return undefined
  return { type: 'source', sourceType: 'document', id, title, mediaType, ...fieldIn(part, 'filename') }
}

/** assistant-ui finds a call in its message by the id. A call with the id of an earlier one gets another. */
function callOf(part: Part, calls: Set<string>): ToolCall | undefined {
  const { type, input, rawInput } = part
  const toolName = type === 'dynamic-tool' ? textIn(part, 'toolName') : /^tool-(.+)/s.exec(type)?.[1]
  let toolCallId = textIn(part, 'toolCallId')
  if (toolName === undefined || toolCallId === undefined) return undefined
  while (calls.has(toolCallId)) toolCallId += "'"
  calls.add(toolCallId)
  const args = isFields(input) ? (input as JsonObject) : {}
  const isGrowing = part['state'] === 'input-streaming' && typeof rawInput === 'string'
  const argsText = isGrowing ? rawInput : (JSON.stringify(input ?? rawInput) ?? '')
  return { type: 'tool-call', toolCallId, toolName, args, argsText, ...resultOf(part) }
}

/** With the fields that errors have in assistant-ui's own adapter for the AI SDK, so that components fit both. */
function resultOf({ state, output, errorText, approval }: Part): Pick<ToolCall, 'result' | 'isError'> {
  switch (state) {
    case 'output-available':
      return { result: output ?? null }
    case 'output-error':
      return { result: { error: errorText }, isError: true }
    case 'output-denied': {
      const reason = isFields(approval) ? approval['reason'] : undefined
      return { result: { error: reason ?? 'The call was denied.' }, isError: true }
    }
    default:
      return {}
  }
}

function dataOf(part: Part): Data {
  const name = /^data-(.+)/s.exec(part.type)?.[1]
  return name === undefined
    ? { type: 'data', name: part.type, data: part }
    : { type: 'data', name, data: part['data'] }
}

type Fields = { readonly [field: string]: unknown }

function textIn(fields: Fields, name: string): string | undefined {
  const value = fields[name]
  return typeof value === 'string' ? value : undefined
}

/** The field, if it is a text. */
function fieldIn<Name extends string>(fields: Fields, name: Name): { readonly [name in Name]?: string } {
  const value = textIn(fields, name)
  return (value === undefined ? {} : { [name]: value }) as { readonly [name in Name]?: string }
}
