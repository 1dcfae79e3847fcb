// The version in this package's package.json. Its relative path is the same from src and from dist.
import { readFileSync } from 'node:fs'

export function ownVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
