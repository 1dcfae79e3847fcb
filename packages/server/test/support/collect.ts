// A collection of garbage when a test wants one, so that what is measured is what is held.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
export const collect: () => void = runInNewContext('gc') as () => void
