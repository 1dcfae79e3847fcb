// Schemas of issuers in requests and answers. Their fields are validated where an issuer is added.
import { z } from 'zod'

export const newIssuerSchema = z.strictObject({
  name: z.string().describe('what people call it, such as `auth0`'),
  tenant: z.string().describe('the name of the tenant whose users it knows'),
  issuer: z.string().describe('the claim `iss` of its tokens'),
  audience: z.string().describe('the claim `aud` of its tokens'),
  jwksUrl: z
    .string()
    .optional()
    .describe('where its public keys are; by default `.well-known/jwks.json` below the issuer'),
  algorithms: z.array(z.string()).optional().describe('some of EdDSA, ES256, RS256; by default all'),
  maxAgeSeconds: z
    .int()
    .optional()
    .describe('tokens that were issued longer ago are rejected; by default 900'),
})
export const issuerSchema = z.object({
  name: z.string(),
  tenant: z.string(),
  issuer: z.string(),
  audience: z.string(),
  jwksUrl: z.string(),
  algorithms: z.array(z.string()),
  maxAgeSeconds: z.int(),
  createdAt: z.string(),
})
export const issuersSchema = z.object({ issuers: z.array(issuerSchema) })
export const issuerParams = z.object({ issuer: z.string().describe('the name of the issuer') })
export const removedIssuerSchema = z.object({ name: z.string() })
