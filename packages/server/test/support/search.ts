// Looks for a text in everything that PostgreSQL has stored of a database: a dump, and the files of its tables and indexes.
import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { binariesOf } from './binaries.ts'

export function dumpOf(url: string): string {
  const { pathname, hostname, username } = new URL(url)
  const args = ['-h', decodeURIComponent(hostname), '-U', username, pathname.slice(1)]
  return execFileSync(join(binariesOf(15, tmpdir()), 'pg_dump'), args, {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  })
}

/** The files of the database that contain the text, after `vacuum` (with `full`: `vacuum full`) and a checkpoint. */
export async function filesWith(url: string, text: string, options = ''): Promise<string[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(`vacuum ${options}`)
    await client.query('checkpoint')
    const { rows } = await client.query<{ folder: string }>(
      `select current_setting('data_directory') || '/base/' || oid as folder from pg_database where datname = current_database()`,
    )
    const { folder } = rows[0]!
    return globSync('*', { cwd: folder }).filter((file) => readFileSync(join(folder, file)).includes(text))
  } finally {
    await client.end()
  }
}
