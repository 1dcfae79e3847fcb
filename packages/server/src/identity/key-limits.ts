// How many keys there may be, and how long one lives. `days` is the most, `usualDays` the default.
export const KEY_LIMITS = { ofOneName: 2, ofOneTenant: 100, days: 730, usualDays: 365, listedDays: 90 }
