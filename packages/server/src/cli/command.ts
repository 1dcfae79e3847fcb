// A command as a value. cli/main makes the command line from the table of commands.
import type { Config, Flags } from '../config.ts'
import type { Output } from './output.ts'

export type CommandOptions = Readonly<Record<string, string | boolean | undefined>>

export type CommandCall = {
  /** Settings that were given as flags, as text. */
  readonly flags: Flags
  /** The command's arguments, in the order of its table; undefined if left out. */
  readonly args: readonly (string | undefined)[]
  /** The command's own options. */
  readonly options: CommandOptions
  readonly output: Output
}

export type Command = {
  /** As it is typed: `migrate up`. */
  readonly name: string
  readonly summary: string
  /** Each in commander's notation, `<session>` or `[text]`, with a description. */
  readonly args?: readonly (readonly [name: string, text: string])[]
  /** The settings that it accepts as flags. */
  readonly settings: readonly (keyof Config)[]
  /** Options that are not settings: each in commander's notation, with a description. */
  readonly options?: readonly (readonly [flags: string, text: string])[]
  /** Resolves to the exit code. */
  readonly run: (call: CommandCall) => Promise<number>
}
