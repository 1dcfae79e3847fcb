// The route for the audit log.
import { route, type Route } from '../door/route.ts'
import type { Audit } from '../identity/audit.ts'
import { AUDIT_LIMITS } from '../identity/audit-actions.ts'
import { READ } from './access.ts'
import { auditQuery, auditSchema } from './audit-schemas.ts'

export function auditRoute({ audit }: { readonly audit: Pick<Audit, 'list'> }): Route {
  return route({
    method: 'GET',
    path: '/v1/audit',
    summary:
      'Lists the audit log, the newest row first: who changed tenants, keys, tokens, issuers, agents and retention, who erased data, and which requests were refused.',
    access: READ,
    query: auditQuery,
    answers: { 200: { means: `At most ${AUDIT_LIMITS.rows} rows.`, json: auditSchema } },
    handle: async ({ query }) => ({ status: 200, body: { entries: await audit.list(query) } }),
  })
}
