// Starts two pods as `fleetline dev` does, and prints the URL of the first one's API: it has the demo agent. SIGUSR2 asks both to stop,
// and at once lets as much time pass as the stop of the first may take. The limit of the second
// is 0 ms, so it is killed. Prints the warnings of the pods.
import { longestStopMs } from '../../src/admin/draining.ts'
import { createPods } from '../../src/cli/dev/pods.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { manualClock } from './clock.ts'
import { OF_CLUSTER } from './pod.ts'

const [, , databaseUrl, folder] = process.argv
const limits = { drainMs: 1_000, unreadyMs: 0, stopMs: 10_000 }
const settings = {
  databaseUrl: databaseUrl!,
  port: '0',
  operatorPort: '0',
  allowInsecure: `authentication,${OF_CLUSTER}`,
  ...Object.fromEntries(Object.entries(limits).map(([name, ms]) => [name, String(ms)])),
}
const planOf = (name: string, demoAgent: string, stopMs: number) => ({
  name,
  app: undefined,
  settings: () => ({ ...settings, demoAgent }),
  stopMs,
  logFile: `${folder}/${name}.log`,
  pidFile: `${folder}/${name}.pid`,
})
const stopMs = longestStopMs(limits)
const clock = manualClock()
const pods = createPods([planOf('pod-1', 'yes', stopMs), planOf('pod-2', 'no', 0)], {
  clock,
  random: systemRandom(),
  onEvent: ({ source, message, fields }) => console.log(`${source} ${message}: ${String(fields['reason'])}`),
})
await pods.start()
console.log(`http://127.0.0.1:${pods.live()[0]!.gateway}/v1`)
process.on('SIGUSR2', () => {
  void pods.stop().then(() => console.log('both have ended'))
  void clock.advance(stopMs)
})
