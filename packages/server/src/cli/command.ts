// A command as a value; cli/main turns the table of them into the command line.
import type { Config, Flags } from '../config.ts'
import type { Output } from './output.ts'

export type CommandOptions = Readonly<Record<string, string | boolean | undefined>>

export type CommandCall = {
  /** Settings given as flags, as texts. */
  readonly flags: Flags
  /** The command's arguments, in the order of its table; one that was left out is undefined. */
  readonly args: readonly (string | undefined)[]
  /** The command's own options. */
  readonly options: CommandOptions
  readonly output: Output
}

export type Command = {
  /** Its words: `migrate up`. */
  readonly name: string
  readonly summary: string
  /** How commander writes them, `<session>` or `[text]`, and what they are. */
  readonly args?: readonly (readonly [name: string, text: string])[]
  /** Which settings it takes as flags. */
  readonly settings: readonly (keyof Config)[]
  /** Options that are no settings: how commander writes them, and what they do. */
  readonly options?: readonly (readonly [flags: string, text: string])[]
  /** Answers the exit code. */
  readonly run: (call: CommandCall) => Promise<number>
}
