// The documents that an AG-UI agent keeps with its reader: its state, and activities such as a plan or a form. Events replace or patch
// them. A document becomes a part of the reply, `data-…` with an id. It is written when something else is said, so that a hundred patches in
// a row cost one chunk, and only at the end if an agent changes its documents all the time. A patch that does not apply changes nothing.
import { ChunkError, isFields, type Chunk } from '@fleetline/protocol'
import type { AgUiEvent } from './parse-event.ts'
import { applyPatch, PATCH_LIMITS, PatchError, type PatchOperation } from './json-patch.ts'

/** The part of a reply with the state of its agent. The next call of the agent is sent it again. */
export const STATE = { type: 'data-ag-ui-state', id: 'state' } as const

type Document = { readonly type: `data-${string}`; readonly id: string; data: unknown }

export type Documents = {
  /** Takes an event with the type STATE_… or ACTIVITY_…. */
  readonly take: (event: AgUiEvent) => void
  /** The chunks of what has changed. `isLast`: nothing follows. */
  readonly flush: (options?: { readonly isLast: boolean }) => Chunk[]
}

const TYPE_LENGTH = 64
const MOST_EARLY = 8_388_608 // characters that are written before the end

export function createDocuments(state: unknown): Documents {
  const [activities, changed] = [new Map<string, Document>(), new Set<Document>()]
  const ofAgent: Document = { ...STATE, data: state ?? {} }
  let written = 0
  const set = (document: Document, data: unknown) => {
    if (JSON.stringify(data).length > PATCH_LIMITS.characters)
      throw new ChunkError(`A state or an activity has at most ${PATCH_LIMITS.characters} characters of JSON`)
    document.data = data
    changed.add(document)
  }
  const patch = (document: Document | undefined, operations: unknown) => {
    if (!document) return
    try {
      set(document, applyPatch(document.data, operations as readonly PatchOperation[]))
    } catch (error) {
      if (!(error instanceof PatchError)) throw error
    }
  }
  const show = ({ messageId, activityType, content, replace }: AgUiEvent) => {
    const [id, type] = [String(messageId), String(activityType)]
    const there = activities.get(id)
    if (there && replace === false) return
    if (type === '' || type.length > TYPE_LENGTH)
      throw new ChunkError(`ACTIVITY_SNAPSHOT: activityType has 1 to ${TYPE_LENGTH} characters`)
    const document = there ?? { type: `data-${type}` as const, id, data: undefined }
    activities.set(id, document)
    set(document, content)
  }
  return {
    take: (event) => {
      if (event.type === 'STATE_SNAPSHOT') set(ofAgent, event['snapshot'])
      else if (event.type === 'STATE_DELTA') patch(ofAgent, event['delta'])
      else if (event.type === 'ACTIVITY_SNAPSHOT') show(event)
      else patch(activities.get(String(event['messageId'])), event['patch'])
    },
    flush: ({ isLast } = { isLast: false }) => {
      if (!isLast && written > MOST_EARLY) return []
      const chunks = Array.from(changed, (document) => ({ ...document }))
      changed.clear()
      for (const { data } of chunks) written += JSON.stringify(data).length
      return chunks
    },
  }
}

/** The state that the agent left in its last reply. Undefined: none. */
export function lastState(
  messages: readonly {
    readonly parts: readonly { readonly type: string; readonly [field: string]: unknown }[]
  }[],
): unknown {
  const parts = messages.toReversed().flatMap(({ parts }) => parts.toReversed())
  const part = parts.find(({ type, id }) => type === STATE.type && id === STATE.id)
  return isFields(part) ? part['data'] : undefined
}
