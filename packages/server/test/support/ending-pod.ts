// Starts a pod with the demo agent, as `fleetline dev` does, and prints the URL of its API. SIGUSR2 asks the pod to stop, and at once
// lets as much time pass as its stop may take. Then it prints how the process of the pod has ended.
import { createWriteStream } from 'node:fs'
import { longestStopMs } from '../../src/admin/draining.ts'
import { startPodProcess } from '../../src/cli/dev/pod-process.ts'
import { manualClock } from './clock.ts'
import { OF_CLUSTER } from './pod.ts'

const [, , databaseUrl] = process.argv
const limits = { drainMs: 1_000, unreadyMs: 0, stopMs: 10_000 }
const stopMs = longestStopMs(limits)
const settings = {
  databaseUrl: databaseUrl!,
  port: '0',
  operatorPort: '0',
  allowInsecure: `authentication,${OF_CLUSTER}`,
  demoAgent: 'yes',
  ...Object.fromEntries(Object.entries(limits).map(([name, ms]) => [name, String(ms)])),
}
const clock = manualClock()
const pod = startPodProcess(
  { name: 'pod', app: undefined, settings, stopMs },
  {
    clock,
    log: createWriteStream('/dev/null'),
    onEvent: () => undefined,
    onReady: ({ gateway }) => console.log(`http://127.0.0.1:${gateway}/v1`),
  },
)
void pod.ended.then(({ how }) => console.log(`ended: ${how}`))
process.on('SIGUSR2', () => {
  pod.end()
  void clock.advance(stopMs)
})
