// fleetline issuers add, ls, rm.
import { Rejected } from '../../errors.ts'
import { durationMs } from '../../lib/duration.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { withDirectory } from '../keys/directory.ts'
import { EXIT } from '../output.ts'

export async function add({ flags, args: [name], options, output }: CommandCall): Promise<number> {
  const [tenant, issuer, audience] = ['tenant', 'issuer', 'audience'].map((key) => given(options, key))
  const { jwksUrl, algorithms, maxAge } = options
  const wanted = {
    name: name!,
    tenant: tenant!,
    issuer: issuer!,
    audience: audience!,
    ...(typeof jwksUrl === 'string' && { jwksUrl }),
    ...(typeof algorithms === 'string' && { algorithms: algorithms.split(',').map((one) => one.trim()) }),
    ...(typeof maxAge === 'string' && { maxAgeSeconds: Math.round(durationMs('--max-age', maxAge) / 1_000) }),
  }
  output.one({ ...(await withDirectory({ flags, output }, (directory) => directory.addIssuer(wanted))) })
  return EXIT.done
}

export async function list({ flags, output }: CommandCall): Promise<number> {
  const issuers = await withDirectory({ flags, output }, (directory) => directory.listIssuers())
  output.list(
    ['name', 'tenant', 'issuer', 'audience', 'algorithms', 'maxAgeSeconds', 'jwksUrl', 'createdAt'],
    issuers,
  )
  return EXIT.done
}

export async function remove({ flags, args: [name], output }: CommandCall): Promise<number> {
  output.one(await withDirectory({ flags, output }, (directory) => directory.removeIssuer(name!)))
  return EXIT.done
}

function given(options: CommandOptions, key: string): string {
  const value = options[key]
  if (typeof value === 'string') return value
  throw new Rejected('invalid', `Give --${key}: see fleetline issuers add --help`)
}
