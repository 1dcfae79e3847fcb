// Starts a pod, pauses it for longer than any test lasts, and prints its process id. SIGUSR2 wakes the pod.
import { createWriteStream } from 'node:fs'
import { startPodProcess } from '../../src/cli/dev/pod-process.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { OF_CLUSTER } from './pod.ts'

const HOUR_MS = 3_600_000
const [, , databaseUrl] = process.argv
const settings = { databaseUrl: databaseUrl!, port: '0', operatorPort: '0', allowInsecure: OF_CLUSTER }
const pod = startPodProcess(
  { name: 'pod', app: undefined, settings, stopMs: HOUR_MS },
  {
    clock: systemClock(),
    log: createWriteStream('/dev/null'),
    onEvent: () => undefined,
    onReady: () => {
      void pod.pause(HOUR_MS).then(() => console.log('woken'))
      console.log(`paused ${pod.pid}`)
    },
  },
)
process.on('SIGUSR2', () => pod.wake())
