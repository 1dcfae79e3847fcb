// What a tenant may be called.
export const TENANT_NAME: RegExp = /^[a-z0-9][a-z0-9-]{0,62}$/

export const TENANT_RULE = '1 to 63 lower-case letters, digits and dashes, no dash first'
