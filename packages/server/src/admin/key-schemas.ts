// Schemas of tenants and keys in requests and answers. Names, scopes and days are validated where a key is created.
import { z } from 'zod'

export const newTenantSchema = z.strictObject({ name: z.string() })
export const tenantSchema = z.object({ name: z.string(), createdAt: z.string() })
export const tenantsQuery = z.object({
  after: z.string().optional().describe('the last name of the previous page'),
})
export const tenantsSchema = z.object({ tenants: z.array(tenantSchema) })

export const newKeySchema = z.strictObject({
  tenant: z.string().optional().describe("the tenant's name; leave it out for a key of an operator"),
  name: z.string().describe('what uses the key, such as `backend`'),
  scopes: z.array(z.string()).optional(),
  days: z.int().optional().describe('how many days it is valid'),
  mode: z.enum(['live', 'test']).optional().describe('`test` changes only the text of the key: fl_test_…'),
})
export const keySchema = z.object({
  id: z.string(),
  tenant: z.string().nullable().describe('null for a key of an operator'),
  name: z.string(),
  scopes: z.array(z.string()),
  state: z.enum(['live', 'expired', 'revoked']),
  createdAt: z.string(),
  expiresAt: z.string(),
})
export const createdKeySchema = z.object({
  key: z.string().describe('the key itself; shown only in this response'),
  ...keySchema.shape,
})
export const keyParams = z.object({ key: z.string().describe('the id of the key') })
export const keysQuery = z.object({
  tenant: z.string().optional(),
  operator: z.enum(['true', 'false']).optional().describe('true: only keys of operators'),
})
export const keysSchema = z.object({ keys: z.array(keySchema) })
