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

type Receipt = z.infer<typeof erasureSchema>

/** The whole receipt goes to stdout, because people keep it in a file. `user`: whom the command erases; the receipt does not name it. */
export function printReceipt(output: Output, receipt: Receipt, user?: string): number {
  const { erased, remains, ...fields } = receipt
  if (output.isJson) {
    output.one(receipt)
    return EXIT.done
  }
  output.one({ ...fields, ...erased })
  if (receipt.kind !== 'message')
    output.line('`messages` counts messages that were erased one by one, not those of erased sessions.')
  for (const { what, where, until } of remains)
    output.line(`Remains: ${what} (${where}${until === null ? '' : `, until ${until.slice(0, 10)}`})`)
  const next = nextStep(receipt, user)
  if (next !== undefined) output.note(next)
  return EXIT.done
}

function nextStep({ erasure, kind, state, erased }: Receipt, user: string | undefined): string | undefined {
  const whose = user === undefined ? '' : ` of user ${user}`
  const why = kind === 'user' ? ', because the receipt does not name the user' : ''
  if (state === 'running')
    return `The erasure${whose} runs. To see whether it is done: fleetline erasures get ${erasure}. Note this id with your request${why}.`
  const isNothing = Object.values(erased).every((count) => count === 0)
  return kind === 'user' && isNothing
    ? 'Nothing of this user was found: check the id of the user that was requested.'
    : undefined
}
