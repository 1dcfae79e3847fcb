// How long a token is valid, at most and by default, and how many sessions it may name.
export const TOKEN_LIMITS = { seconds: 600, sessions: 20 }
