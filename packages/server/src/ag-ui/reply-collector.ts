// Collects the chunks of a reply. It adds what the chunks of the AI SDK need and AG-UI does not say: where steps begin, and at the end of a text
// the encrypted value that AG-UI sends after it.
import type { Chunk, ProviderMetadata } from '@fleetline/protocol'
import type { Documents } from './state-and-activities.ts'

type EndOfWords = Extract<Chunk, { readonly type: 'text-end' | 'reasoning-end' }>

export type ReplyCollector = {
  readonly say: (...chunks: readonly Chunk[]) => void
  /** Says this with the next chunk, because an encrypted value may still come. */
  readonly sayLater: (end: EndOfWords) => void
  readonly encryptLater: (id: string, encrypted: ProviderMetadata) => void
  /** Something follows that belongs to a step. A new one begins if all calls of the last one have their results: the model was called again. */
  readonly beginStep: () => void
  readonly countCall: () => void
  readonly countResult: () => void
  /** Ends the step that is open. */
  readonly endStep: () => void
  /** Whether anything was said that belongs to a step. */
  readonly hasSpoken: () => boolean
  /** What was said since the last time. */
  readonly take: () => Chunk[]
}

export function createReplyCollector(documents: Pick<Documents, 'flush'>): ReplyCollector {
  const step = { isOpen: false, hasSpoken: false, calls: 0, results: 0 }
  let [said, held]: [Chunk[], EndOfWords | undefined] = [[], undefined]
  const say = (...chunks: readonly Chunk[]) => {
    said.push(...(held ? [held] : []), ...documents.flush(), ...chunks)
    held = undefined
  }
  const endStep = () => {
    if (step.isOpen) say({ type: 'finish-step' })
    step.isOpen = false
  }
  return {
    say,
    sayLater: (end) => {
      say()
      held = end
    },
    encryptLater: (id, encrypted) => {
      if (held?.id === id) held = { ...held, providerMetadata: encrypted }
    },
    beginStep: () => {
      step.hasSpoken = true
      if (step.isOpen && (step.results === 0 || step.results < step.calls)) return
      endStep()
      say({ type: 'start-step' })
      Object.assign(step, { isOpen: true, calls: 0, results: 0 })
    },
    countCall: () => void (step.calls += 1),
    countResult: () => void (step.results += 1),
    endStep,
    hasSpoken: () => step.hasSpoken,
    take: () => {
      const chunks = said
      said = []
      return chunks
    },
  }
}
