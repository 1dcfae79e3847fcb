// Schemas of the caller's own tenant.
import { z } from 'zod'
import { agentName } from './agent-schemas.ts'

export const ownTenantSchema = z.object({ name: z.string(), defaultAgent: z.string().nullable() })
export const tenantChangeSchema = z.strictObject({ defaultAgent: agentName.nullable() })
