// What an issuer of others may use, and how much of it. `ageSeconds` is the most, `usualAgeSeconds` the default.
export const ISSUER_LIMITS = { issuers: 100, ageSeconds: 86_400, usualAgeSeconds: 900, length: 1_000 }

/** Signed with a private key, so that nobody who verifies can sign. */
export const ISSUER_ALGORITHMS: readonly string[] = ['EdDSA', 'ES256', 'RS256']
