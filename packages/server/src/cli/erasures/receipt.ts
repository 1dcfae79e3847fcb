// Prints receipts of erasures, and requires --yes of commands that erase.
import type { z } from 'zod'
import { Rejected } from '../../errors.ts'
import type { erasureSchema } from '../../gateway/erasure-schemas.ts'
import type { CommandOptions } from '../command.ts'
import { EXIT, type Output } from '../output.ts'

/** `effect`: what the command does, and that it cannot be undone. `goal`: why to add --yes. */
export function requireYes({ yes }: CommandOptions, effect: string, goal: string): void {
  if (yes !== true) throw new Rejected('invalid', `${effect} To ${goal}, add --yes`)
}

/** For commands that erase as soon as they run. */
export function requireYesToErase(options: CommandOptions, what: string): void {
  requireYes(options, `This erases ${what}. It cannot be undone.`, 'erase')
}

export function printReceipt(
  output: Output,
  { erased, remains, ...receipt }: z.infer<typeof erasureSchema>,
): number {
  if (output.isJson) output.one({ ...receipt, erased, remains })
  else output.one({ ...receipt, ...erased })
  if (receipt.kind !== 'message')
    output.note('`messages` counts messages that were erased one by one, not those of erased sessions.')
  for (const { what, where, until } of remains)
    output.note(`Remains: ${what} (${where}${until === null ? '' : `, until ${until.slice(0, 10)}`})`)
  return EXIT.done
}
