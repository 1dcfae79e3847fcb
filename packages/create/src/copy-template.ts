// Copies a template into a folder. It overwrites nothing: the folder must be new or empty. If it fails, a folder that it has made is removed.
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { TemplateName } from './templates.ts'

/** What the user can change. */
export class Refusal extends Error {
  readonly isUsage: boolean
  constructor(message: string, isUsage = false) {
    super(message)
    this.isUsage = isUsage
  }
}

const PACKAGE = join(import.meta.dirname, '..')
/** npm leaves a file `.gitignore` out of packages. */
const GITIGNORE = ['_gitignore', '.gitignore'] as const

export function copyTemplate(template: TemplateName, path: string): void {
  const isNew = mustBeFree(path)
  try {
    mkdirSync(path, { recursive: true })
    cpSync(join(PACKAGE, 'templates', template), path, { recursive: true })
    renameSync(join(path, GITIGNORE[0]), join(path, GITIGNORE[1]))
    complete(join(path, 'package.json'), path)
  } catch (error) {
    if (isNew) rmSync(path, { recursive: true, force: true })
    throw new Refusal(`${path} could not be made: ${(error as Error).message}`)
  }
}

/** Returns whether there is no folder yet. */
function mustBeFree(path: string): boolean {
  if (!existsSync(path)) return true
  if (!statSync(path).isDirectory()) throw new Refusal(`${path} is a file: name another folder`)
  if (readdirSync(path).length > 0) throw new Refusal(`${path} is not empty: name another folder`)
  return false
}

/** Names the app, and the release that its template was tested with. */
function complete(file: string, path: string): void {
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as { dependencies: Record<string, string> }
  const { version } = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as { version: string }
  const named = { ...manifest, name: nameOf(path) }
  named.dependencies['fleetline'] = `^${version}`
  writeFileSync(file, `${JSON.stringify(named, null, 2)}\n`)
}

/** A name that npm accepts. */
function nameOf(path: string): string {
  const name = basename(path)
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
  return name || 'fleetline-app'
}
