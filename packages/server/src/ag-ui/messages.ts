// Turns a message of the log into AG-UI messages.
//
//   message                         becomes
//   of a user                       its text; or its texts and files, as parts
//   system                          its text
//   assistant: a text               an assistant message, which also has the calls that follow it in its step
//   assistant: a reasoning          a reasoning message
//   assistant: a result             a tool message, right behind the message with its call
//   assistant: data, file, source   an activity. Front ends show activities; agents are not sent them
import { isCall, isFields, type Message, type Part } from '@fleetline/protocol'
import { ENCRYPTED } from './events-to-chunks.ts'
import { STATE } from './state-and-activities.ts'
import { createMessageIds, idOfCall, idOfResult, type MessageIds } from './message-ids.ts'

export type AgUiMessage = { readonly id: string; readonly role: string; readonly [field: string]: unknown }

type Assistant = AgUiMessage & { content?: string; toolCalls?: object[] }

/** For agents: calls have the ids that the agent has given them. */
export function messagesForAgent(message: Message): AgUiMessage[] {
  return toAgUiMessages(message, (_reply, toolCallId) => toolCallId)
}

/** For readers, with the ids of `chunks-to-events.ts`. */
export function messagesForReader(message: Message): AgUiMessage[] {
  return toAgUiMessages(message, idOfCall)
}

type NameCall = typeof idOfCall

function toAgUiMessages(message: Message, nameCall: NameCall): AgUiMessage[] {
  const { id, role, parts } = message
  if (role === 'assistant') return messagesOfReply(message, nameCall)
  return [{ id, role, content: role === 'user' ? contentOf(parts) : textOf(parts) }]
}

function messagesOfReply({ id: reply, parts }: Message, nameCall: NameCall): AgUiMessage[] {
  const ids = createMessageIds(reply)
  const made: AgUiMessage[] = []
  const results = new Map<AgUiMessage, AgUiMessage[]>() // by the message with the call
  const last = new Map(parts.filter(isCall).map((part) => [part['toolCallId'], part]))
  for (const part of parts) {
    if (isCall(part) && last.get(part['toolCallId']) !== part) continue // AG-UI has one call with an id
    if (part.type === 'step-start') ids.startStep()
    else if (isCall(part)) takeCall(part, { reply, ids, made, results, nameCall })
    else made.push(...otherOf(part, ids))
  }
  return made.flatMap((message) => [message, ...(results.get(message) ?? [])])
}

type Making = {
  readonly reply: string
  readonly ids: MessageIds
  readonly made: AgUiMessage[]
  readonly results: Map<AgUiMessage, AgUiMessage[]>
  readonly nameCall: NameCall
}

function takeCall(part: Part, { reply, ids, made, results, nameCall }: Making): void {
  const toolCallId = nameCall(reply, String(part['toolCallId']))
  const id = ids.forCall()
  let message: Assistant | undefined = made.find((one) => one.id === id)
  if (!message) made.push((message = { id, role: 'assistant' }))
  ;(message.toolCalls ??= []).push(callOf(part, toolCallId))
  const result = resultOf(part['state'], part)
  if (!result) return
  const tool = { id: idOfResult(reply, String(part['toolCallId'])), role: 'tool', toolCallId, ...result }
  results.set(message, [...(results.get(message) ?? []), tool])
}

function callOf(part: Part, id: string) {
  const { input, rawInput, callProviderMetadata, resultProviderMetadata } = part
  const text = typeof rawInput === 'string' ? rawInput : argumentsOf(input)
  return {
    id,
    type: 'function',
    function: { name: nameOf(part), arguments: text },
    ...(encryptedIn(callProviderMetadata) ?? encryptedIn(resultProviderMetadata)),
  }
}

/** Text that is no JSON stays as it is. */
export function argumentsOf(input: unknown): string {
  if (input === undefined) return ''
  return typeof input === 'string' ? input : JSON.stringify(input)
}

/** What a tool message says. Undefined: the call has no result yet. */
export function resultOf(
  state: unknown,
  said: object,
): { readonly content: unknown; readonly error?: string } | undefined {
  const { output, errorText } = said as { readonly output?: unknown; readonly errorText?: unknown }
  if (state === 'output-available') return { content: contentOfResult(output) }
  if (state === 'output-denied') return DENIED
  return state === 'output-error' ? { content: String(errorText), error: String(errorText) } : undefined
}

const DENIED = { content: 'The call was denied.', error: 'The call was denied.' }

/** A list of content parts stays one, any other value is written as JSON. */
function contentOfResult(output: unknown): unknown {
  if (typeof output === 'string') return output
  const isContent = Array.isArray(output) && output.length > 0 && output.every(isContentPart)
  return isContent ? output : (JSON.stringify(output) ?? '')
}

function isContentPart(part: unknown): boolean {
  if (!isFields(part)) return false
  if (part['type'] === 'text') return typeof part['text'] === 'string'
  const { source } = part
  if (!MEDIA.includes(String(part['type'])) || !isFields(source) || typeof source['value'] !== 'string')
    return false
  return source['type'] === 'data' ? typeof source['mimeType'] === 'string' : source['type'] === 'url'
}

const MEDIA = ['image', 'audio', 'video', 'document']

function otherOf(part: Part, ids: MessageIds): AgUiMessage[] {
  if (part.type === 'text') return [{ id: ids.forText(), role: 'assistant', content: String(part['text']) }]
  if (part.type === 'reasoning') {
    const encrypted = encryptedIn(part['providerMetadata'])
    return [{ id: ids.forReasoning(), role: 'reasoning', content: String(part['text']), ...encrypted }]
  }
  if (isUnseen(part)) return []
  return [{ id: ids.forOther(), role: 'activity', ...activityOf(part) }]
}

/** Neither the agent's state nor its tokens are part of what people see. */
export function isUnseen({ type, id }: { readonly type: string; readonly id?: unknown }): boolean {
  return type === 'data-usage' || (type === STATE.type && id === STATE.id)
}

/** What AG-UI has no message for. */
export function activityOf(part: { readonly type: string; readonly [field: string]: unknown }) {
  const { type: activityType, data, ...fields } = part
  if (!activityType.startsWith('data-')) return { activityType, content: fields }
  return {
    activityType: activityType.slice('data-'.length),
    content: isFields(data) ? data : { value: data ?? null },
  }
}

export function encryptedIn(providerMetadata: unknown): { readonly encryptedValue: string } | undefined {
  const ours = isFields(providerMetadata) ? providerMetadata[ENCRYPTED] : undefined
  const value = isFields(ours) ? ours['encryptedValue'] : undefined
  return typeof value === 'string' ? { encryptedValue: value } : undefined
}

function nameOf({ type, toolName }: Part): string {
  return type === 'dynamic-tool' ? String(toolName) : type.slice('tool-'.length)
}

function textOf(parts: readonly Part[]): string {
  return parts.flatMap(({ type, text }) => (type === 'text' ? [String(text)] : [])).join('\n')
}

function contentOf(parts: readonly Part[]): unknown {
  const isPlain = parts.every(({ type }) => type !== 'file')
  return isPlain ? textOf(parts) : parts.flatMap(contentPartOf)
}

function contentPartOf({ type, text, mediaType, url, filename }: Part): object[] {
  if (type === 'text') return [{ type: 'text', text: String(text) }]
  if (type !== 'file' || typeof url !== 'string') return []
  const kind = MEDIA.find((one) => String(mediaType).startsWith(`${one}/`)) ?? 'document'
  return [
    {
      type: kind,
      source: sourceOf(url, typeof mediaType === 'string' ? mediaType : undefined),
      ...(typeof filename === 'string' && { metadata: { filename } }),
    },
  ]
}

function sourceOf(url: string, type: string | undefined) {
  const mimeType = type === undefined ? {} : { mimeType: type }
  const [, value] = /^data:[^,]*;base64,(.*)$/s.exec(url) ?? []
  return value === undefined || type === undefined
    ? { type: 'url', value: url, ...mimeType }
    : { type: 'data', value, ...mimeType }
}
