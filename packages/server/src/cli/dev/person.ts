/** The user of a dev fleet. It has a token, the two devices of the page, and is a member of the sessions that a dev fleet makes. */
export const DEV_USER = 'ada'
