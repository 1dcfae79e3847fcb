// fleetline turns get: one request.
import { turnSchema } from '../../gateway/turn-schemas.ts'
import { apiOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { EXIT } from '../output.ts'

export async function get({ flags, args, output }: CommandCall): Promise<number> {
  const path = `/turns/${encodeURIComponent(args[0]!)}`
  output.one(await apiOf({ flags, output }).ask({ method: 'GET', path, answer: turnSchema }))
  return EXIT.done
}
