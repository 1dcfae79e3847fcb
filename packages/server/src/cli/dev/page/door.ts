// The HTTP port of a dev fleet's page. It accepts only requests that are local by the rule of the pods, and from browsers only
// its own pages. It serves the page, controls the pods and passes on requests of the page's devices. No pod has these routes.
//   GET  /                               the page and its files
//   GET  /dev/scene                      what the page shows
//   POST /dev/pods/:pod/:act             kill, pause, wake, restart
//   POST /dev/chaos/on, /dev/chaos/off
//   any  /devices/:device/v1/…           a device's request to the fleet
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isLocal } from '../../../door/address.ts'
import { bodyOf, refusalOf, statusOf, type Refusal } from '../../../door/refusal.ts'
import { Rejected, Retry } from '../../../errors.ts'
import { createHttpService, type HttpService } from '../http-service.ts'
import type { DevPod } from '../pods.ts'
import type { Chaos } from './chaos.ts'
import { DEVICES, type Devices } from './devices.ts'
import { PAGE_FILES, readPageFile } from './files.ts'
import type { Act, DeviceName, Scene } from './wire.ts'

type Deps = {
  readonly host: string
  /** Preferred; if it is taken, any other. */
  readonly port: number
  readonly pods: readonly DevPod[]
  readonly devices: Devices
  readonly chaos: Pick<Chaos, 'set'>
  readonly look: () => Scene
  readonly act: (pod: DevPod, act: Act) => boolean
  readonly onError: (error: unknown) => void
}
const ACTS: readonly Act[] = ['kill', 'pause', 'wake', 'restart']

// Nothing is loaded from elsewhere, and nothing that an agent says is ever run.
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}

const PAGE_ONLY =
  'This page accepts only direct HTTP/1.1 requests to localhost, from this machine: open it without a proxy'
const NO_ROUTE: Refusal = { code: 'not_found', text: 'The page has no such route.' }

type Exchange = {
  readonly deps: Deps
  /** The groups of the route's pattern. */
  readonly found: readonly string[]
  readonly request: IncomingMessage
  readonly response: ServerResponse
}
type Handle = (exchange: Exchange) => void | Promise<void>

const ROUTES: readonly (readonly [route: RegExp, handle: Handle])[] = [
  [/^GET (\/[\w.]*)(?:\?|$)/, sendFile],
  [/^GET \/dev\/scene$/, ({ deps, response }) => sendJson(response, 200, deps.look())],
  [new RegExp(`^POST /dev/pods/([\\w-]+)/(${ACTS.join('|')})$`), actOn],
  [/^POST \/dev\/chaos\/(on|off)$/, switchChaos],
  [new RegExp(`^[A-Z]+ /devices/(${DEVICES.join('|')})(/v1/.*)$`), passOn],
]

export function createPageDoor(deps: Deps): HttpService {
  const server = createServer((request, response) => {
    answer(deps, request, response).catch((error: unknown) => {
      const refusal = refusalOf(error)
      if (refusal.code === 'internal') deps.onError(error)
      refuse(response, refusal)
    })
  })
  return createHttpService(server, { name: 'page', host: deps.host, port: deps.port })
}

async function answer(deps: Deps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.setHeaders(new Map(Object.entries(HEADERS)))
  if (!isOwn(request)) throw new Rejected('forbidden', PAGE_ONLY)
  for (const [route, handle] of ROUTES) {
    const match = route.exec(`${request.method} ${request.url}`)
    if (match) return handle({ deps, found: match.slice(1), request, response })
  }
  refuse(response, NO_ROUTE)
}

/** The page forwards requests without the headers of proxies, so pods would treat all of them as local. This check comes first. */
function isOwn(request: IncomingMessage): boolean {
  const { host, origin } = request.headers
  return isLocal(request) && (origin === undefined || origin === `http://${host}`)
}

async function sendFile({ found: [path], response }: Exchange): Promise<void> {
  const file = PAGE_FILES[path!]
  if (!file) return refuse(response, NO_ROUTE)
  const body = await readPageFile(file.name)
  response.writeHead(200, { 'content-type': file.type }).end(body)
}

function actOn({ deps, found: [name, act], response }: Exchange): void {
  const pod = deps.pods.find((pod) => pod.name === name)
  if (!pod) throw new Rejected('not_found', `There is no ${name}`)
  const { state } = pod.standing()
  if (!deps.act(pod, act as Act))
    throw new Rejected('conflict', `${name} is ${state}: there is nothing to ${act}`)
  sendJson(response, 200, { pod: name, act })
}

function switchChaos({ deps, found: [wish], response }: Exchange): void {
  deps.chaos.set(wish === 'on')
  sendJson(response, 200, { isChaos: wish === 'on' })
}

function passOn({ deps, found: [device, path], request, response }: Exchange): void {
  if (!deps.devices.pass(device as DeviceName, path!, request, response))
    throw new Retry('unavailable', 'No pod is ready')
}

function refuse(response: ServerResponse, refusal: Refusal): void {
  if (response.headersSent) return void response.destroy()
  sendJson(response, statusOf(refusal), bodyOf(refusal, 'page'))
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body))
}
