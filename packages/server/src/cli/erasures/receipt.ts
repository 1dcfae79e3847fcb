// Prints receipts of erasures, and asks whoever erases to be sure.
import type { z } from 'zod'
import { Rejected } from '../../errors.ts'
import type { erasureSchema } from '../../gateway/erasure-schemas.ts'
import type { CommandOptions } from '../command.ts'
import { EXIT, type Output } from '../output.ts'

/** `what`: as the end of a sentence. */
export function mustBeSure({ yes }: CommandOptions, what: string, hint = ''): void {
  if (yes !== true)
    throw new Rejected('invalid', `This erases ${what}. It cannot be undone. ${hint}To erase, add --yes`)
}

export function printReceipt(
  output: Output,
  { erased, remains, ...receipt }: z.infer<typeof erasureSchema>,
): number {
  if (output.isJson) output.one({ ...receipt, erased, remains })
  else output.one({ ...receipt, ...erased })
  for (const { what, where, until } of remains)
    output.note(`Remains: ${what} (${where}${until === null ? '' : `, until ${until.slice(0, 10)}`})`)
  return EXIT.done
}
