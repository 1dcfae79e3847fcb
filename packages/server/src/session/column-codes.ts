// The database stores these words as their index in the list. Add new words only at the end.
import type { Author, ItemStatus, Role } from '@fleetline/protocol'

export const ROLES = ['user', 'assistant', 'system'] as const satisfies readonly Role[]
export const STATUSES = ['stopped', 'failed'] as const satisfies readonly ItemStatus[]
export const AUTHOR_KINDS = ['user', 'agent', 'service'] as const satisfies readonly Author['kind'][]
