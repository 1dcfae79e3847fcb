// The two devices of the page. Each reaches the fleet through a pod of its own while that is ready, and through another one
// while it is not, as behind a load balancer: the answer says which. A pod that ends takes its connections along; those of one
// that is paused are cut, as a failed health check would.
import { request as ask, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Ack } from '@fleetline/protocol'
import { portsOf, type DevPod } from '../pods.ts'
import type { DeviceName } from './wire.ts'

export type Devices = {
  /** Passes the request on, below the device's path; false: no pod is ready. */
  pass(device: DeviceName, path: string, request: IncomingMessage, response: ServerResponse): boolean
  /** Ends what goes through this pod. */
  cut(pod: string): void
}
type Deps = {
  readonly host: string
  readonly pods: readonly DevPod[]
  /** Whether there is a session yet: a device that hears of none gives up. */
  readonly isReady: () => boolean
  /** In which they talk. */
  readonly session: string
  /** A device is told that a message of theirs is stored. */
  readonly onAck: (ack: Ack) => void
}

/** The order of the pods that they prefer. */
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
      passed.once('error', () => response.destroy()) // its outcome is not known here
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
      // no acknowledgement: the device will not take it for one, either
    }
  })
}

function only({ headers }: IncomingMessage, names: readonly string[]): Record<string, string> {
  const given = names.filter((name) => headers[name] !== undefined)
  return Object.fromEntries(given.map((name) => [name, String(headers[name])]))
}
