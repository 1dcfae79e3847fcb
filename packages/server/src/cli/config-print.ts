// fleetline config print
import { describeConfig, type Config } from '../config.ts'
import { SETTINGS } from '../settings.ts'
import type { Command } from './command.ts'
import { EXIT } from './output.ts'

export const CONFIG_PRINT: Command = {
  name: 'config print',
  summary: 'Print every setting with its value and the source of the value. Passwords are hidden.',
  settings: Object.keys(SETTINGS) as (keyof Config)[],
  run: async ({ flags, output }) => {
    output.list(['setting', 'value', 'source'], describeConfig({ flags }))
    return EXIT.done
  },
}
