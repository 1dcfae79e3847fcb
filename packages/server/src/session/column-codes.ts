// Words that are stored as their place in these lists: append only at the end.
import type { Author, ItemStatus, Role } from '@fleetline/protocol'

export const ROLES = ['user', 'assistant', 'system'] as const satisfies readonly Role[]
export const STATUSES = ['stopped', 'failed'] as const satisfies readonly ItemStatus[]
export const AUTHOR_KINDS = ['user', 'agent', 'service'] as const satisfies readonly Author['kind'][]
