// What a user has written in assistant-ui, as a message to send.
import type { Metadata, Part } from '@fleetline/protocol'
import type { Input } from './session.ts'

/** An `AppendMessage` of assistant-ui. */
export type AppendMessage = {
  readonly role: string
  readonly content: readonly Part[]
  readonly attachments?:
    | readonly {
        readonly name: string
        readonly contentType?: string | undefined
        readonly content: readonly Part[]
      }[]
    | undefined
  readonly metadata: { readonly custom: Metadata }
  /** The message after which it was written. */
  readonly parentId: string | null
  /** The message in whose place it shall stand. */
  readonly sourceId: string | null
}

export function inputOf({ role, content, attachments = [], metadata: { custom } }: AppendMessage): Input {
  if (role !== 'user') throw new TypeError(`Only messages of users can be sent, but the role is ${role}`)
  const { fleetline: _copied, ...metadata } = custom // of a message that the page has copied
  const attached = attachments.flatMap(({ name, contentType, content }) =>
    content.map((part) => partOf({ filename: name, ...part }, contentType)),
  )
  const parts = [...content.map((part) => partOf(part)), ...attached]
  return { parts, ...(Object.keys(metadata).length > 0 && { metadata }) }
}

function partOf(part: Part, contentType?: string): Part {
  const { text, image, data, name, mimeType, audio } = part as unknown as Fields
  switch (part.type) {
    case 'text':
      return { type: 'text', text }
    case 'image':
      return fileOf(part, image, contentType, 'image/png')
    case 'file':
      return fileOf(part, data, mimeType || contentType, 'application/octet-stream')
    case 'audio':
      return fileOf(part, audio.data, audio.format === 'mp3' ? 'audio/mpeg' : `audio/${audio.format}`)
    case 'data':
      return { type: `data-${name}`, data }
    default:
      return part
  }
}

/** The fields of assistant-ui's parts, by their names. */
type Fields = {
  readonly [field in 'text' | 'image' | 'data' | 'name' | 'mimeType']: string
} & { readonly audio: { readonly data: string; readonly format: string } }

/** `data`: a URL, or the content in Base64, which has no colon. A data URL says its own type. */
function fileOf({ filename, sourceType }: Part, data: string, type: string | undefined, usual = ''): Part {
  const mediaType = type || (/^data:([^;,]+)/i.exec(data)?.[1] ?? usual)
  const url = sourceType === 'url' || data.includes(':') ? data : `data:${mediaType};base64,${data}`
  return { type: 'file', mediaType, url, ...(filename !== undefined && { filename }) }
}
