// fleetline doctor
import { loadConfig, POD_SETTINGS } from '../config.ts'
import { systemClock, type Clock } from '../lib/clock.ts'
import type { Command } from './command.ts'
import { countOf, listFindings } from './findings.ts'
import { EXIT } from './output.ts'

export const DOCTOR: Command = createDoctor(systemClock())

export function createDoctor(clock: Clock): Command {
  return {
    name: 'doctor',
    summary: `Examine the database and the settings as a pod on this machine would find them. It changes nothing, and no pod needs to run. Exits with ${EXIT.notClean} if something is red.`,
    settings: POD_SETTINGS,
    run: async ({ flags, output }) => {
      const { examine } = await import('../safety/examine.ts')
      const findings = await examine(loadConfig({ flags }), clock)
      listFindings(output, findings, ['red', 'warn'])
      return countOf(findings, 'red') > 0 ? EXIT.notClean : EXIT.done
    },
  }
}
