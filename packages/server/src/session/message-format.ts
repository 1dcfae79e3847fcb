// The format of the bodies of messages. Each row has the number of its format, and so has each export. A release reads all formats up to its
// own. It writes a new format only if the previous release could already read it, because both run side by side during a deploy.
//
//   format   a body is
//   1        JSON with the parts and the metadata of an AI SDK message
import { Bug } from '../errors.ts'
import type { Item } from '@fleetline/protocol'

/** The format that this release writes. */
export const MESSAGE_FORMAT = 1

type Body = Pick<Item, 'parts' | 'metadata'>

/** `name` says which message it is, for the error. */
export function parseBody(format: number, text: string, name: string): Body {
  if (format !== MESSAGE_FORMAT)
    throw new Bug(
      `${name} is stored in format ${format}, which this release cannot read: deploy a newer release of Fleetline`,
    )
  return JSON.parse(text) as Body
}
