// Schemas of the audit log in requests and answers.
import { z } from 'zod'
import { AUDIT_ACTIONS, AUDIT_LIMITS } from '../identity/audit-actions.ts'

/** A whole number in the query string, from 1. */
function whole(max: number) {
  return z
    .string()
    .regex(/^\d{1,16}$/, 'must be a whole number')
    .transform(Number)
    .refine((value) => value >= 1 && value <= max, `must be from 1 to ${max}`)
}

export const auditQuery = z.object({
  tenant: z.string().optional().describe('only rows about this tenant'),
  actor: z
    .string()
    .max(AUDIT_LIMITS.actorLength)
    .optional()
    .describe('only rows of this actor, such as `key 3cPx0mZqL7aB`'),
  action: z.enum(AUDIT_ACTIONS).optional(),
  before: whole(Number.MAX_SAFE_INTEGER).optional().describe('the last id of the previous page'),
  limit: whole(AUDIT_LIMITS.rows).default(AUDIT_LIMITS.usualRows),
})
export const auditSchema = z.object({
  entries: z.array(
    z.object({
      id: z.int(),
      at: z.iso.datetime(),
      tenant: z
        .string()
        .nullable()
        .describe('whose data it concerns; null for operators, or if nobody knows'),
      actor: z.string().describe('`key <id>`, `user <id>`, `command <role>`, `pod`, `anyone` or `nobody`'),
      via: z.string().nullable().describe('of a user: `key <id>` that minted the token, or `issuer <name>`'),
      address: z
        .string()
        .nullable()
        .describe(
          'of the client, or the /64 network of an unknown one; null for a change that did not come over HTTP, and for `others`',
        ),
      action: z.string(),
      target: z
        .string()
        .nullable()
        .describe(
          'the id or name of what was changed (of `tenant.change`: the new default agent; of `retention.set`: the rule, as in `clerk: 30 → 365` days), the refused route, or `others`; null for a refused caller that nobody knows',
        ),
      outcome: z.enum(['done', 'refused']),
      reason: z.string().nullable().describe('why it was refused'),
      times: z.int().describe('1 for a change; otherwise how many equal requests were refused'),
    }),
  ),
})
