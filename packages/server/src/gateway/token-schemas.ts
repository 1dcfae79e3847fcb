// Schemas of tokens and tickets in requests and answers.
import { z } from 'zod'
import { ALL_RIGHTS, RIGHTS, USUAL_RIGHTS } from '../identity/scopes.ts'
import { TOKEN_LIMITS } from '../identity/token-limits.ts'
import { userId } from './session-schemas.ts'

export const newTokenSchema = z
  .strictObject({
    user: userId.describe('the id that your application has for the user'),
    sessions: z
      .array(z.string())
      .min(1)
      .max(TOKEN_LIMITS.sessions)
      .optional()
      .describe('ids or aliases; the token is good for these sessions only, if the user is a member'),
    rights: z
      .array(z.enum(ALL_RIGHTS))
      .min(1)
      .default(USUAL_RIGHTS)
      .describe(
        Object.entries(RIGHTS)
          .map(([right, means]) => `${right}: ${means}`)
          .join('; '),
      ),
    seconds: z.int().min(1).max(TOKEN_LIMITS.seconds).default(TOKEN_LIMITS.seconds),
  })
  .refine(({ sessions, rights }) => !sessions || !rights.includes('create'), {
    path: ['rights'],
    message: 'a token for named sessions cannot create others: leave out sessions, or create',
  })
export const tokenSchema = z.object({ token: z.string(), user: z.string(), expiresAt: z.string() })
export const ticketSchema = z.object({ ticket: z.string(), expiresAt: z.string() })

export const revokeSchema = z.strictObject({ user: userId })
export const revokedSchema = z.object({ user: z.string(), revokedAt: z.string() })
