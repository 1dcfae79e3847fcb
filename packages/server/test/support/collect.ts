// Collects garbage when a test asks for it, so that the test measures only memory that is in use.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
export const collect: () => void = runInNewContext('gc') as () => void
