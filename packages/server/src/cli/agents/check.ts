// fleetline agents check: runs the checks one after the other, and prints what they have found.
import { checkAgent } from '../../agent-check/check-agent.ts'
import type { AgentCheck } from '../../agent-check/finding.ts'
import { PROTOCOLS } from '../../agent/settings.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { countOf, listFindings } from '../findings.ts'
import { choiceOf, wholeOf } from '../options.ts'
import { EXIT } from '../output.ts'
import { devSecretFile, readSecret } from './secret-file.ts'

const SILENCE_S = { min: 1, max: 600 }

export async function check({ args: [url], options, output }: CommandCall): Promise<number> {
  const { timeout, compact, secretFile } = options
  const path = textOf(secretFile) ?? devSecretFile()
  const checks = checkAgent(url!, {
    secret: readSecret(path),
    protocol: choiceOf('--protocol', options['protocol'], PROTOCOLS),
    message: textOf(options['message']),
    toolMessage: textOf(options['toolMessage']),
    user: textOf(options['user']),
    compact: compact === true,
    timeoutMs: timeout === undefined ? undefined : wholeOf('--timeout', timeout, SILENCE_S) * 1_000,
  })
  output.note(`Calls to ${url} are signed with the secret in ${path}.`)
  const found: AgentCheck[] = []
  for await (const one of checks) {
    output.note(`${one.name}: ${one.state}`)
    found.push(one)
  }
  listFindings(output, found, ['failed', 'warning', 'skipped'])
  return countOf(found, 'failed') > 0 ? EXIT.notClean : EXIT.done
}

function textOf(option: CommandOptions[string]): string | undefined {
  return typeof option === 'string' ? option : undefined
}
