// A shell that keeps running, as in a separate terminal. Its programs are in the test file's process group and end with the file.
import { spawn } from 'node:child_process'
import { atEnd, type Scope } from './cleanup.ts'

/** Starts a shell. The returned function returns the shell's output so far. */
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
