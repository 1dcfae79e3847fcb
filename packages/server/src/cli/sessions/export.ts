// fleetline sessions export: prints the lines of an export, with control characters as JSON escapes. An export without its last line was cut
// off, so the command fails.
import type { ExportLine } from '@fleetline/protocol'
import { Rejected, Retry } from '../../errors.ts'
import { apiOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { EXIT } from '../output.ts'

const UNESCAPED = /[\u007f-\u009f]/g // control characters that JSON may contain unescaped; a terminal would obey them
const escaped = (one: string) => `\\u00${one.charCodeAt(0).toString(16)}`

export async function exportSession({ flags, args, output }: CommandCall): Promise<number> {
  const path = `/sessions/${encodeURIComponent(args[0]!)}/export`
  let last: ExportLine | undefined
  for await (const line of apiOf({ flags, output }).lines(path)) {
    last = JSON.parse(line) as ExportLine
    if (last.type !== 'cut-off') output.line(line.replaceAll(UNESCAPED, escaped))
    await output.drained()
  }
  if (last?.type === 'cut-off') throw new Rejected(last.code, `The export was cut off: ${last.text}`)
  if (last?.type !== 'end') throw new Retry('unavailable', 'The export was cut off: run the command again')
  return EXIT.done
}
