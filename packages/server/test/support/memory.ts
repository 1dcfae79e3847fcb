// Loaded into a pod (`--import`): at SIGUSR2 it collects its garbage and says what is left, one line on stdout.
import { collect } from './collect.ts'

process.on('SIGUSR2', () => {
  collect()
  const { heapUsed, external, rss } = process.memoryUsage()
  console.log(JSON.stringify({ msg: 'memory', heapUsed, external, rss }))
})
