// Validates options of commands.
import { PAGE_LIMITS } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { CommandOptions } from './command.ts'

export function wholeOf(
  flag: string,
  text: CommandOptions[string],
  { min, max, otherwise }: { readonly min: number; readonly max: number; readonly otherwise?: string },
): number {
  const value = typeof text === 'string' && /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  const other = otherwise === undefined ? '' : `, or ${otherwise}`
  throw new Rejected('invalid', `${flag} must be a whole number from ${min} to ${max}${other}`)
}

export function numberOf(
  flag: string,
  text: CommandOptions[string],
  { min, max }: { readonly min: number; readonly max: number },
): number {
  const value = typeof text === 'string' ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw new Rejected('invalid', `${flag} must be a number from ${min} to ${max}`)
}

/** Undefined if the option is not given. */
export function choiceOf<Choice extends string>(
  flag: string,
  text: CommandOptions[string],
  choices: readonly Choice[],
): Choice | undefined {
  const chosen = choices.find((choice) => choice === text)
  if (text === undefined || chosen !== undefined) return chosen
  throw new Rejected('invalid', `${flag} must be one of ${choices.join(', ')}`)
}

export function seqOf(flag: string, text: CommandOptions[string]): number {
  return wholeOf(flag, text, { min: 0, max: PAGE_LIMITS.seq })
}
