// Every bench by its name. `npm run bench` and the evening run them, and the gate tries each at its smallest size.
import { appendBench } from './append.ts'
import { inboxBench } from './inbox.ts'
import { machineBench } from './machine.ts'
import { queueBench } from './queue.ts'
import { socketsBench } from './sockets.ts'
import type { Bench } from './support/report.ts'
import { throttleBench } from './throttle.ts'
import { turnBench } from './turn.ts'

export const BENCHES: Readonly<Record<string, Bench>> = {
  append: appendBench,
  inbox: inboxBench,
  machine: machineBench,
  queue: queueBench,
  sockets: socketsBench,
  throttle: throttleBench,
  turn: turnBench,
}
