// The CPU time of another process, as Linux counts it: all threads, user and system, in steps of 10 ms.
import { readFileSync } from 'node:fs'

const TICK_MS = 10

export function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ') // the name before may contain spaces
  const [user, system] = [fields[11], fields[12]].map(Number)
  return (user! + system!) * TICK_MS
}

/** How busy the process keeps one core, in percent, until the returned function is called. */
export function watchCpu(pid: number): () => number {
  const [startMs, usedMs] = [performance.now(), cpuMsOf(pid)]
  return () => ((cpuMsOf(pid) - usedMs) / (performance.now() - startMs)) * 100
}
