// Runs commands in this process as if typed. Gives what they print on stdout and on stderr, and their exit code.
import type { Command, CommandOptions } from '../../src/cli/command.ts'
import { createOutput } from '../../src/cli/output.ts'
import type { Flags } from '../../src/config.ts'

type Terminal = {
  /** Of both ports; `flags` beat it. */
  readonly url?: string
  readonly flags?: Flags
  readonly isTTY?: boolean
  readonly json?: boolean
}

/** Returns a function that runs a command of this group by the last word of the command's name. */
export function typing(commands: readonly Command[], group: string) {
  return async (
    terminal: Terminal,
    verb: string,
    args: readonly string[] = [],
    options: CommandOptions = {},
  ) => {
    const said = { out: '', err: '' }
    const sink = (name: 'out' | 'err') => ({
      write: (text: string) => (said[name] += text),
      isTTY: terminal.isTTY ?? false,
    })
    const output = createOutput(sink('out'), sink('err'), terminal.json ?? false)
    const command = commands.find(({ name }) => name === `${group} ${verb}`.trim())!
    const { url, flags = { apiUrl: url, operatorUrl: url } } = terminal
    const call = { flags, args, options, output }
    const code = await command.run(call).catch((error: unknown) => output.fail(error))
    return { code, ...said }
  }
}
