// Erasures and retention for a program that has the pod in its own process.
import type { Erasure } from '@fleetline/protocol'
import type { RetentionPreview, RetentionRule, RetentionRules } from '../erasure/retention.ts'
import type { RouteCaller } from './in-process.ts'

export type PodErasures = {
  /** Resolves when the message is erased. */
  eraseMessage(session: string, message: string): Promise<Erasure>
  /** Resolves when nobody can read the session any more. Its content is removed soon after; see the state of the receipt. */
  eraseSession(session: string): Promise<Erasure>
  /** Resolves when the request is stored and the tokens of the user have ended. */
  eraseUser(user: string): Promise<Erasure>
  get(erasure: string): Promise<Erasure>
  /** The newest first. */
  list(range?: { readonly before?: string; readonly limit?: number }): Promise<readonly Erasure[]>
}
/** `isAgentKnown`: only with an agent and days. False: no agent has this name now. */
type Checked = { readonly isAgentKnown?: boolean }
export type PodRetention = {
  rules(): Promise<RetentionRules>
  /** Fleetline begins within seconds to erase sessions that are older. Resolves to all rules. */
  set(rule: RetentionRule): Promise<RetentionRules & Checked>
  /** What would be erased now if this rule replaced the current one of its agent; without a rule, by the stored rules. */
  preview(rule?: { readonly agent?: string; readonly keepDays: number }): Promise<RetentionPreview & Checked>
}

export function createPodErasures(call: RouteCaller): {
  readonly erasures: PodErasures
  readonly retention: PodRetention
} {
  return {
    erasures: {
      eraseMessage: (session, message) =>
        call('DELETE /v1/sessions/:session/messages/:message', { params: { session, message } }),
      eraseSession: (session) => call('DELETE /v1/sessions/:session', { params: { session } }),
      eraseUser: (user) => call('DELETE /v1/users/:user', { params: { user } }),
      get: (erasure) => call('GET /v1/erasures/:erasure', { params: { erasure } }),
      list: async (range = {}) =>
        (await call<{ erasures: Erasure[] }>('GET /v1/erasures', { query: range })).erasures,
    },
    retention: {
      rules: () => call('GET /v1/retention', {}),
      set: (rule) => call('PUT /v1/retention', { body: rule }),
      preview: (rule) => call('GET /v1/retention/preview', { query: rule ?? {} }),
    },
  }
}
