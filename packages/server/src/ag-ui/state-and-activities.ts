// The documents that an AG-UI agent keeps with its reader: its state, and activities such as a plan or a form. Events replace or patch
// them. A document becomes a part of the reply, `data-…` with an id. It is written when something else is said, so that a hundred patches in
// a row cost one chunk, and only at the end if an agent changes its documents all the time. A patch that does not apply changes nothing.
import { ChunkError, isFields, type Chunk } from '@fleetline/protocol'
import { shortenId, type AgUiEvent } from './parse-event.ts'
import { applyPatch, PATCH_LIMITS, PatchError, type PatchOperation } from './json-patch.ts'

/** The part of a reply with the state of its agent. The next call of the agent is sent it again. */
export const STATE = { type: 'data-ag-ui-state', id: 'state' } as const

/** `size`: at least as many characters as the data has as JSON. */
type Document = { readonly type: `data-${string}`; readonly id: string; data: unknown; size: number }

export type Documents = {
  /** Takes an event with the type STATE_… or ACTIVITY_…. */
  readonly take: (event: AgUiEvent) => void
  /** The chunks of what has changed. `isLast`: nothing follows. */
  readonly flush: (options?: { readonly isLast: boolean }) => Chunk[]
}

const LIMITS = {
  /** Of one document, as JSON. */
  characters: PATCH_LIMITS.characters,
  /** Of all documents together, because a larger reply cannot be stored. */
  all: 4_194_304,
  /** How much more their sizes may add up to before all are measured: that takes long. */
  slack: 1_048_576,
  activities: 1_000,
  typeLength: 64,
  /** Characters written before the run ends; later changes wait for the end. */
  early: 8_388_608,
} as const
/** Part names that Fleetline reads itself. */
const RESERVED = new Set(['usage', 'ag-ui-state'])

/** Returns the part type for a name chosen by the agent; reserved names get a prefix. */
export function dataTypeOf(name: string): `data-${string}` {
  return RESERVED.has(name) ? `data-ag-ui-custom-${name}` : `data-${name}`
}

export function createDocuments(state: unknown): Documents {
  const [activities, changed] = [new Map<string, Document>(), new Set<Document>()]
  const ofAgent: Document = { ...STATE, data: state ?? {}, size: sizeOf(state ?? {}) }
  let [written, all] = [0, ofAgent.size]
  /** Sizes are upper bounds, so their sum may be too large. */
  const measureAll = (event: string) => {
    const documents = [ofAgent, ...activities.values()]
    for (const one of documents) one.size = sizeOf(one.data)
    all = documents.reduce((sum, { size }) => sum + size, 0)
    if (all > LIMITS.all) throw tooLarge(`${event}: state and activities together exceed`, LIMITS.all)
  }
  const set = (event: string, document: Document, data: unknown, most: number) => {
    const size = most > LIMITS.characters ? sizeOf(data) : most // it is measured only if it may be too large
    if (size > LIMITS.characters) throw tooLarge(`${event}: ${nameOf(document)} exceeds`, LIMITS.characters)
    all += size - document.size
    Object.assign(document, { data, size })
    if (all > LIMITS.all + LIMITS.slack) measureAll(event)
    changed.add(document)
  }
  /** A patch that does not apply changes nothing. */
  const patch = (event: string, document: Document | undefined, operations: unknown) => {
    if (!document) return
    try {
      const { document: data, added } = applyPatch(document.data, operations as readonly PatchOperation[])
      set(event, document, data, document.size + added)
    } catch (error) {
      if (!(error instanceof PatchError)) throw error
    }
  }
  const show = ({ type, messageId, activityType, content, replace }: AgUiEvent) => {
    const [id, name] = [String(messageId), String(activityType)]
    const there = activities.get(id)
    if (there && replace === false) return
    if (name === '' || name.length > LIMITS.typeLength)
      throw new ChunkError(`ACTIVITY_SNAPSHOT: activityType must have 1 to ${LIMITS.typeLength} characters`)
    if (!there && activities.size === LIMITS.activities)
      throw new ChunkError(`ACTIVITY_SNAPSHOT: a reply has at most ${LIMITS.activities} activities`)
    const document = there ?? { type: dataTypeOf(name), id, data: undefined, size: 0 }
    activities.set(id, document)
    set(type, document, content, sizeOf(content))
  }
  return {
    take: (event) => {
      const { type } = event
      if (type === 'STATE_SNAPSHOT') set(type, ofAgent, event['snapshot'], sizeOf(event['snapshot']))
      else if (type === 'STATE_DELTA') patch(type, ofAgent, event['delta'])
      else if (type === 'ACTIVITY_SNAPSHOT') show(event)
      else patch(type, activities.get(String(event['messageId'])), event['patch'])
    },
    flush: ({ isLast } = { isLast: false }) => {
      if (!isLast && written > LIMITS.early) return []
      const chunks = Array.from(changed, ({ type, id, data, size }) => {
        written += size
        return { type, id, data }
      })
      changed.clear()
      return chunks
    },
  }
}

function nameOf({ type, id }: Document): string {
  return type === STATE.type ? 'the state' : `the activity ${shortenId(id)}`
}

function tooLarge(what: string, most: number): ChunkError {
  return new ChunkError(`${what} ${most} characters of JSON`, { remedy: 'Send less' })
}

function sizeOf(data: unknown): number {
  return JSON.stringify(data).length
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
