// What a key or a user's token may do. Each route declares what it needs (S2). A key has scopes of a tenant or of an operator, never of
// both, so no key of a tenant opens the operator's port.

/** For keys of a tenant. */
export const TENANT_SCOPES = {
  'sessions:read': 'reads and follows sessions and messages; reads turns and their usage of tokens',
  'sessions:write':
    'creates sessions, sends messages as anybody, changes members and what they have read, stops turns; an answer shows what it changed',
  'sessions:erase':
    'erases messages, sessions and users, reads the receipts, and sets how long sessions are kept; what is erased cannot be restored',
  'tasks:read': 'reads tasks, with their inputs and results',
  'tasks:write': 'enqueues and retries tasks; a retry shows the task',
  'agents:read': 'lists agents behind URLs, and shows the default agent',
  'agents:write':
    'adds and removes agents and names the default agent, and so decides where conversations are sent',
  'usage:read': 'reads sums of the tokens that agents have used',
  'tokens:mint': 'mints tokens for users and revokes them; a token reads and writes the sessions of its user',
} as const

/** For keys of operators, which belong to no tenant. */
export const OPERATOR_SCOPES = {
  operate: "opens the operator's port, and reads its metrics; every operator's key has it",
  'admin:read': 'reads pods, machines, downstreams, tenants, keys, issuers and the audit log',
  'pods:write': 'takes pods out of work, and back',
  'admin:write': 'creates tenants, keys and issuers, and so may act as anybody',
} as const

export type TenantScope = keyof typeof TENANT_SCOPES
export type OperatorScope = keyof typeof OPERATOR_SCOPES
export type Scope = TenantScope | OperatorScope

/** Scopes of a new key, if the caller names none. */
export const USUAL_SCOPES: { readonly tenant: readonly TenantScope[]; readonly operator: readonly Scope[] } =
  {
    tenant: ['sessions:read', 'sessions:write', 'tokens:mint'],
    operator: ['operate', 'admin:read'],
  }

export function isScopeOf(owner: 'tenant' | 'operator', text: string): text is Scope {
  return Object.hasOwn(owner === 'tenant' ? TENANT_SCOPES : OPERATOR_SCOPES, text)
}

/** What a token lets its user do, in the sessions of which the user is a member. */
export const RIGHTS = {
  read: 'reads and follows sessions, and says how far its user has read',
  send: 'sends messages in the name of its user',
  stop: 'stops turns',
  create: "creates sessions with the tenant's default agent, and becomes their member",
} as const
export type Right = keyof typeof RIGHTS
export const ALL_RIGHTS = Object.keys(RIGHTS) as [Right, ...Right[]]
/** Rights of a new token, if the caller names none. */
export const USUAL_RIGHTS: Right[] = ['read', 'send', 'stop']
