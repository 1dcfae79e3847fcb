// The route that exports a session.
import type { ExportLine } from '@fleetline/protocol'
import { route, type Route } from '../door/route.ts'
import type { Listener } from '../door/stream.ts'
import { mapped } from '../lib/mapped.ts'
import type { Sessions } from '../session/sessions.ts'
import { READ } from './caller.ts'
import { exportLinesFor } from './seen.ts'
import { notFound, type SessionKeys } from './session-key.ts'
import { exportLineSchema, sessionParams } from './session-schemas.ts'

type Deps = SessionKeys & { readonly sessions: Pick<Sessions, 'exportSession'> }

export function exportRoutes({ sessions, keyOf, maySee, explainMissing }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/sessions/:session/export',
      summary:
        'Exports a session as lines of JSON: the session with its members, its summary if there is one, all its messages in order, and a line `end`. Without that line, the export was cut off: request it again.',
      access: READ,
      params: sessionParams,
      answers: { 200: { means: 'The lines. They are sent as they are read.', lines: exportLineSchema } },
      handle: async ({ principal, params }) => {
        const key = await keyOf(principal, params.session)
        const exporting = await sessions.exportSession(key)
        if (!exporting) throw await explainMissing(key)
        const seen = (lines: readonly ExportLine[]) => exportLinesFor(principal, lines)
        const recheck = async () => {
          if (!(await maySee(principal, key))) throw notFound()
        }
        return { status: 200, body: (listener: Listener) => mapped(exporting(listener), seen), recheck }
      },
    }),
  ]
}
