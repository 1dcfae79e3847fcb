// All routes of the port for operators: probes for the orchestrator, metrics, the state of the fleet, and their document.
import { z } from 'zod'
import { withOpenapi } from '../door/openapi.ts'
import { route, type Route } from '../door/route.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { Population } from '../machine/population.ts'
import type { DownstreamStanding } from '../throttle/fleet/standings.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { downstreamsSchema } from './downstream-schemas.ts'
import { machinesSchema } from './machine-schemas.ts'
import { podOf, podsSchema } from './pod-schemas.ts'
import { reportSchema, type Readiness } from './readiness.ts'

type Deps = {
  readonly readiness: Pick<Readiness, 'report'>
  readonly metrics: Pick<Metrics, 'text'>
  readonly fleet: Pick<Fleet, 'pods'>
  readonly machines: () => Promise<Population[]>
  readonly downstreams: () => Promise<DownstreamStanding[]>
  readonly version: string
}

export function adminRoutes({ readiness, metrics, fleet, machines, downstreams, version }: Deps): Route[] {
  const routes = [
    route({
      method: 'GET',
      path: '/livez',
      summary: 'Whether the process answers; if not, restart it.',
      access: { audience: 'probe', tenant: 'none' },
      answers: { 200: { means: 'It does.', json: z.object({ state: z.literal('ok') }) } },
      handle: () => ({ status: 200, body: { state: 'ok' } }),
    }),
    route({
      method: 'GET',
      path: '/readyz',
      summary:
        'Whether to send it requests: every check by name, with its state and the age of what it knows.',
      access: { audience: 'probe', tenant: 'none' },
      answers: {
        200: { means: 'Ready; a degraded check works, only slower.', json: reportSchema },
        503: { means: 'Not ready; a check is failing and says why.', json: reportSchema },
      },
      handle: () => {
        const report = readiness.report()
        return { status: report.state === 'ok' ? 200 : 503, body: report }
      },
    }),
    route({
      method: 'GET',
      path: '/metrics',
      summary: 'Metrics of this pod in the text format of Prometheus.',
      access: { audience: 'admin', tenant: 'none' },
      answers: { 200: { means: 'One line per series.', text: 'text/plain; version=0.0.4; charset=utf-8' } },
      handle: async () => ({ status: 200, body: await metrics.text() }),
    }),
    route({
      method: 'GET',
      path: '/v1/pods',
      summary: 'The pods: those that live, the oldest first, then the dead of the last hour.',
      access: { audience: 'admin', tenant: 'none' },
      answers: { 200: { means: 'At most 1000 of them.', json: podsSchema } },
      handle: async () => ({ status: 200, body: { pods: (await fleet.pods()).map(podOf) } }),
    }),
    route({
      method: 'GET',
      path: '/v1/machines',
      summary:
        'The machines, by queue and shape: how many tasks of all tenants stand at which transition, and how old the oldest is.',
      access: { audience: 'admin', tenant: 'none' },
      answers: { 200: { means: 'Those that a live pod runs, or that have tasks.', json: machinesSchema } },
      handle: async () => ({ status: 200, body: { machines: await machines() } }),
    }),
    route({
      method: 'GET',
      path: '/v1/downstreams',
      summary:
        'What pods call under permits, by key: how much it takes as learnt so far, who may have how much of it, and what is in flight.',
      access: { audience: 'admin', tenant: 'none' },
      answers: { 200: { means: 'At most 1000 of them.', json: downstreamsSchema } },
      handle: async () => ({ status: 200, body: { downstreams: await downstreams() } }),
    }),
  ]
  return withOpenapi(routes, { title: 'Fleetline, for operators', version, audience: 'admin' })
}
