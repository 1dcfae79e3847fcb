// Commands as they are typed, in this process: what they print, where, and their exit code.
import type { Command, CommandOptions } from '../../src/cli/command.ts'
import { createOutput } from '../../src/cli/output.ts'

type Terminal = { readonly url: string; readonly isTTY?: boolean; readonly json?: boolean }

/** Of a group of commands, by the last word of their names. */
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
    const command = commands.find(({ name }) => name === `${group} ${verb}`)!
    const call = { flags: { apiUrl: terminal.url, operatorUrl: terminal.url }, args, options, output }
    const code = await command.run(call).catch((error: unknown) => output.fail(error))
    return { code, ...said }
  }
}
