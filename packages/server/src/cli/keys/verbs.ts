// fleetline tenants create, ls; fleetline keys create, ls, revoke.
import { Abort, Rejected } from '../../errors.ts'
import { KEY_LIMITS } from '../../identity/key-limits.ts'
import { idOfKey, KEY_ID } from '../../identity/key-text.ts'
import type { NewKey } from '../../identity/keys.ts'
import type { Tenant } from '../../identity/tenants.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { wholeOf } from '../options.ts'
import { EXIT, type Output } from '../output.ts'
import { withDirectory, type Directory } from './directory.ts'
import { refuseAsKeyFile, writeKeyFile } from './key-file.ts'

export async function createTenant({ flags, args: [name], output }: CommandCall): Promise<number> {
  output.one(await withDirectory({ flags, output }, (directory) => directory.createTenant(name!)))
  return EXIT.done
}

export async function listTenants({ flags, output }: CommandCall): Promise<number> {
  await withDirectory({ flags, output }, async (directory) => {
    let page: readonly Tenant[] = []
    const all: Tenant[] = []
    do {
      page = await directory.listTenants(page.at(-1)?.name)
      all.push(...page)
    } while (page.length > 0)
    output.list(['name', 'createdAt'], all)
  })
  return EXIT.done
}

export async function createKey({ flags, args: [name], options, output }: CommandCall): Promise<number> {
  const [wanted, path] = [wantedOf(name!, options), textOf(options['out'])]
  if (path !== undefined) refuseAsKeyFile(path)
  return withDirectory({ flags, output }, async (directory) => {
    const created = await directory.createKey(wanted)
    if (path !== undefined) return storeKey(created, path, output)
    output.one(created) // at once: whatever fails afterwards must not lose the key
    output.note('Store the key now: it is not shown again.')
    return EXIT.done
  })
}

/** If the file cannot be written, the key is printed: nobody could read it later. */
function storeKey(created: Created, path: string, output: Output): number {
  const { key, ...shown } = created
  try {
    writeKeyFile(path, key)
  } catch (cause) {
    output.one(created)
    const text = `The key ${created.id} was created, but ${path} cannot be written. Store the key now: it is not shown again`
    return output.fail(new Abort('internal', text, { cause }))
  }
  output.one(shown)
  output.note(`The key is in ${path}.`)
  return EXIT.done
}
type Created = Awaited<ReturnType<Directory['createKey']>>

export async function listKeys({ flags, options, output }: CommandCall): Promise<number> {
  const of = { tenant: textOf(options['tenant']), operator: options['operator'] === true || undefined }
  const keys = await withDirectory({ flags, output }, (directory) => directory.listKeys(of))
  output.list(['id', 'tenant', 'name', 'state', 'scopes', 'createdAt', 'expiresAt'], keys)
  return EXIT.done
}

export async function revokeKey({ flags, args: [text = ''], output }: CommandCall): Promise<number> {
  const id = idOfKey(text) ?? text // people paste the whole key, and its secret must not get into a URL or an error
  if (!KEY_ID.test(id))
    throw new Rejected('invalid', 'The id of a key has 12 letters and digits: see fleetline keys ls')
  output.one({ ...(await withDirectory({ flags, output }, (directory) => directory.revokeKey(id))) })
  return EXIT.done
}

function wantedOf(name: string, options: CommandOptions): NewKey {
  const [tenant, scopes] = [textOf(options['tenant']), textOf(options['scopes'])]
  if ((tenant === undefined) === (options['operator'] !== true))
    throw new Rejected('invalid', 'Give either --tenant, or --operator for a key of an operator')
  const days = options['days']
  return {
    name,
    ...(tenant !== undefined && { tenant }),
    ...(scopes !== undefined && { scopes: scopes.split(',').map((scope) => scope.trim()) }),
    ...(days !== undefined && { days: wholeOf('--days', days, { min: 1, max: KEY_LIMITS.days }) }),
    ...(options['test'] === true && { mode: 'test' }),
  }
}

function textOf(option: CommandOptions[string]): string | undefined {
  return typeof option === 'string' ? option : undefined
}
