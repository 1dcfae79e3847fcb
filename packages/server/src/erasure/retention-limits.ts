/** The longest time for which sessions are kept by a rule, and the most rules of a tenant. */
export const RETENTION_LIMITS = { days: 36_500, rules: 1_000 }
