// The two devices of the page. Each has its own pod and uses it while it is ready. Otherwise it uses another pod, as behind a
// load balancer; the answer names the pod. When a pod ends, its connections end. The connections of a paused pod are cut, as
// after a failed health check.
import { request as ask, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Ack } from '@fleetline/protocol'
import { portsOf, type DevPod } from '../pods.ts'
import type { DeviceName } from './wire.ts'

export type Devices = {
  /** Passes the request on with this path. Returns false if no pod is ready. */
  pass(device: DeviceName, path: string, request: IncomingMessage, response: ServerResponse): boolean
  /** Ends all connections through this pod. */
  cut(pod: string): void
}
type Deps = {
  readonly host: string
  readonly pods: readonly DevPod[]
  /** Whether the session exists yet: a device that finds none gives up. */
  readonly isReady: () => boolean
  /** The session in which they talk. */
  readonly session: string
  /** Called when a device is told that its message is stored. */
  readonly onAck: (ack: Ack) => void
}

/** In the order of the pods that they prefer. */
export const DEVICES: readonly DeviceName[] = ['laptop', 'phone']
const ASKED = ['accept', 'content-type', 'content-length', 'last-event-id'] as const
const ANSWERED = [
  'content-type',
  'content-length',
  'cache-control',
  'connection',
  'retry-after',
  'x-request-id',
] as const

export function createDevices({ host, pods, isReady, session, onAck }: Deps): Devices {
  const send = `POST /v1/sessions/${session}/messages`
  const open = new Map<ServerResponse, string>()
  const podFor = (device: DeviceName) => {
    if (!isReady()) return undefined
    const home = DEVICES.indexOf(device)
    const inOrder = pods.map((_, index) => pods[(home + index) % pods.length]!)
    return inOrder.find((pod) => portsOf(pod.standing()))
  }
  return {
    pass: (device, path, request, response) => {
      const pod = podFor(device)
      if (!pod) return false
      const { gateway: port } = portsOf(pod.standing())!
      const headers = only(request, ASKED)
      const passed = ask({ host, port, path, method: request.method, headers, agent: false })
      passed.once('error', () => response.destroy()) // its outcome is unknown here
      passed.once('response', (answer) => {
        const told = { ...only(answer, ANSWERED), 'x-fleetline-pod': pod.name }
        response.writeHead(answer.statusCode!, told)
        response.flushHeaders()
        answer.once('error', () => response.destroy())
        if (`${request.method} ${path}` === send && answer.statusCode === 200) hear(answer, onAck)
        answer.pipe(response)
      })
      open.set(response, pod.name)
      response.once('close', () => {
        open.delete(response)
        passed.destroy()
      })
      request.once('error', () => passed.destroy())
      request.pipe(passed)
      return true
    },
    cut: (pod) => {
      for (const [response, name] of open) if (name === pod) response.destroy()
    },
  }
}

function hear(answer: IncomingMessage, onAck: (ack: Ack) => void): void {
  const chunks: Buffer[] = []
  answer.on('data', (chunk: Buffer) => chunks.push(chunk))
  answer.once('end', () => {
    try {
      onAck(JSON.parse(Buffer.concat(chunks).toString()) as Ack)
    } catch {
      // not an acknowledgement: the device does not accept it as one, either
    }
  })
}

function only({ headers }: IncomingMessage, names: readonly string[]): Record<string, string> {
  const given = names.filter((name) => headers[name] !== undefined)
  return Object.fromEntries(given.map((name) => [name, String(headers[name])]))
}
