// A log that discards its lines.
import { createLog, type Log } from '../../src/telemetry/log.ts'

export function silentLog(): Log {
  return createLog({ level: 'error', destination: { write: () => undefined } })
}
