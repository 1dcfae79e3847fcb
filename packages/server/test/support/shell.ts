// A shell that runs on, as in a terminal of its own. Its programs end with the test's file, whose process group they belong to.
import { spawn } from 'node:child_process'
import { atEnd, type Scope } from './cleanup.ts'

/** What it has printed. */
export function shell(
  t: Scope,
  script: string,
  { cwd, env }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
): () => string {
  const child = spawn('sh', ['-c', script], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  atEnd(t, () => {
    child.kill()
    child.stdout.destroy()
    child.unref()
  })
  return () => output
}
