// fleetline token, fleetline tokens revoke.
import { Rejected } from '../../errors.ts'
import { revokedSchema, tokenSchema } from '../../gateway/token-schemas.ts'
import { ALL_RIGHTS } from '../../identity/scopes.ts'
import { TOKEN_LIMITS } from '../../identity/token-limits.ts'
import { apiOf } from '../api.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { wholeOf } from '../options.ts'
import { EXIT } from '../output.ts'

/** Prints the token alone, so that a shell can put it into a variable. */
export async function mint({ flags, options, output }: CommandCall): Promise<number> {
  const { sessions, rights, seconds } = options
  const body = {
    user: userOf(options),
    ...(typeof sessions === 'string' && { sessions: partsOf(sessions) }),
    ...(typeof rights === 'string' && { rights: rightsOf(rights) }),
    ...(seconds !== undefined && {
      seconds: wholeOf('--seconds', seconds, { min: 1, max: TOKEN_LIMITS.seconds }),
    }),
  }
  const minted = await apiOf({ flags, output }).ask({
    method: 'POST',
    path: '/tokens',
    body,
    answer: tokenSchema,
  })
  if (output.isJson) output.one(minted)
  else output.line(minted.token)
  output.note(`It is valid until ${minted.expiresAt}.`)
  return EXIT.done
}

export async function revoke({ flags, options, output }: CommandCall): Promise<number> {
  const body = { user: userOf(options) }
  output.one(
    await apiOf({ flags, output }).ask({
      method: 'POST',
      path: '/tokens/revoke',
      body,
      answer: revokedSchema,
    }),
  )
  return EXIT.done
}

function userOf({ user }: CommandOptions): string {
  if (typeof user === 'string') return user
  throw new Rejected('invalid', 'Name the user: --user ID')
}

function rightsOf(list: string): string[] {
  const rights = partsOf(list)
  const wrong = rights.find((right) => !ALL_RIGHTS.some((known) => known === right))
  if (wrong === undefined) return rights
  throw new Rejected('invalid', `--rights: ${wrong} is not a right. The rights are ${ALL_RIGHTS.join(', ')}`)
}

function partsOf(list: string): string[] {
  return list.split(',').map((part) => part.trim())
}
