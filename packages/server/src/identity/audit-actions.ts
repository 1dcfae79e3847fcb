// What the audit log records, and how many rows one list shows. `request` is a request that was refused. `usualRows` is the
// default.
export const AUDIT_ACTIONS = [
  'tenant.create',
  'tenant.change',
  'key.create',
  'key.revoke',
  'token.mint',
  'token.revoke',
  'issuer.add',
  'issuer.remove',
  'agent.add',
  'agent.change',
  'agent.remove',
  'message.erase',
  'session.erase',
  'user.erase',
  'retention.set',
  'pod.drain',
  'pod.undrain',
  'request',
] as const
export type AuditAction = (typeof AUDIT_ACTIONS)[number]

export const AUDIT_LIMITS = { rows: 1_000, usualRows: 100, actorLength: 200 }
