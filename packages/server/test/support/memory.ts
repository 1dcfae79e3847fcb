// Loaded into a pod by `--import`. At SIGUSR2 the pod collects its garbage and prints its memory use, one line on stdout.
import { collect } from './collect.ts'

process.on('SIGUSR2', () => {
  collect()
  const { heapUsed, external, rss } = process.memoryUsage()
  console.log(JSON.stringify({ msg: 'memory', heapUsed, external, rss }))
})
