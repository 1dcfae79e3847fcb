// fleetline doctor
import { loadConfig, POD_SETTINGS } from '../config.ts'
import { systemClock, type Clock } from '../lib/clock.ts'
import type { Finding } from '../safety/finding.ts'
import type { Command } from './command.ts'
import { EXIT } from './output.ts'

export const DOCTOR: Command = createDoctor(systemClock())

export function createDoctor(clock: Clock): Command {
  return {
    name: 'doctor',
    summary: `Examine the database and the settings as a pod on this machine would find them. It changes nothing, and no pod needs to run. Exits with ${EXIT.redFindings} if something is red.`,
    settings: POD_SETTINGS,
    run: async ({ flags, output }) => {
      const { examine } = await import('../safety/examine.ts')
      const findings = await examine(loadConfig({ flags }), clock)
      const rows = output.isJson ? findings : findings.map((one) => ({ ...one, found: textOf(one) }))
      output.list(['state', 'name', 'found'], rows)
      const [red, warn] = [countOf(findings, 'red'), countOf(findings, 'warn')]
      output.note(`${findings.length} checks: ${red} red, ${warn} warn.`)
      return red > 0 ? EXIT.redFindings : EXIT.done
    },
  }
}

function textOf({ found, remedy }: Finding): string {
  if (remedy === undefined) return found
  return `${found}. ${remedy}${remedy.endsWith(';') ? '' : '.'}` // a statement can be pasted as it is
}

function countOf(findings: readonly Finding[], wanted: Finding['state']): number {
  return findings.filter(({ state }) => state === wanted).length
}
