// A ring of keys that sign tokens, and what signs them.
export const SECRET: Uint8Array = Buffer.alloc(32, 1)
export const TOKEN_KEYS: string = `test:${Buffer.from(SECRET).toString('base64')}`
