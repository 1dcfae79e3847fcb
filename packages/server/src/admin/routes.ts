// All routes of the port for operators: probes for the orchestrator, metrics, the state of the fleet, tenants, keys, issuers, the audit
// log, and their document.
import { z } from 'zod'
import { withOpenapi } from '../door/openapi.ts'
import { route, type Route } from '../door/route.ts'
import type { Population } from '../machine/population.ts'
import type { DownstreamStanding } from '../throttle/fleet/standings.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { READ } from './access.ts'
import { auditRoute } from './audit-routes.ts'
import { downstreamsSchema } from './downstream-schemas.ts'
import { issuerRoutes } from './issuer-routes.ts'
import { keyRoutes } from './key-routes.ts'
import { machinesSchema } from './machine-schemas.ts'
import { podRoutes } from './pod-routes.ts'
import { reportSchema, type Readiness } from './readiness.ts'

type Deps = Parameters<typeof keyRoutes>[0] &
  Parameters<typeof issuerRoutes>[0] &
  Parameters<typeof auditRoute>[0] &
  Parameters<typeof podRoutes>[0] & {
    readonly readiness: Pick<Readiness, 'report'>
    readonly metrics: Pick<Metrics, 'text'>
    readonly machines: () => Promise<Population[]>
    readonly downstreams: () => Promise<DownstreamStanding[]>
    readonly version: string
  }

export function adminRoutes({ version, ...deps }: Deps): Route[] {
  const { readiness, metrics, machines, downstreams } = deps
  const routes = [
    route({
      method: 'GET',
      path: '/livez',
      summary: 'Reports that the process is alive. If it does not answer, restart it.',
      access: { audience: 'probe', tenant: 'none' },
      answers: { 200: { means: 'The process is alive.', json: z.object({ state: z.literal('ok') }) } },
      handle: () => ({ status: 200, body: { state: 'ok' } }),
    }),
    route({
      method: 'GET',
      path: '/readyz',
      summary:
        'Reports whether the pod should get requests: every check with its name, its state and the age of its data.',
      access: { audience: 'probe', tenant: 'none' },
      answers: {
        200: { means: 'Ready. A degraded check works, but slower.', json: reportSchema },
        503: { means: 'Not ready. The failing check says why.', json: reportSchema },
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
      access: { audience: 'admin', tenant: 'none', scope: 'operate' },
      answers: { 200: { means: 'One line per series.', text: 'text/plain; version=0.0.4; charset=utf-8' } },
      handle: async () => ({ status: 200, body: await metrics.text() }),
    }),
    ...podRoutes(deps),
    route({
      method: 'GET',
      path: '/v1/machines',
      summary:
        'Lists the machines, by queue and shape: how many tasks of all tenants are at each transition, and how old the oldest is.',
      access: READ,
      answers: {
        200: { means: 'The machines that a live pod runs, or that have tasks.', json: machinesSchema },
      },
      handle: async () => ({ status: 200, body: { machines: await machines() } }),
    }),
    route({
      method: 'GET',
      path: '/v1/downstreams',
      summary:
        'Lists the downstreams, by key: their capacity as learnt so far, the share of each pod, and the calls in flight.',
      access: READ,
      answers: { 200: { means: 'At most 1000 downstreams.', json: downstreamsSchema } },
      handle: async () => ({ status: 200, body: { downstreams: await downstreams() } }),
    }),
    ...keyRoutes(deps),
    ...issuerRoutes(deps),
    auditRoute(deps),
  ]
  const access = { audience: 'admin', tenant: 'none', scope: 'operate' } as const
  return withOpenapi(routes, { title: 'Fleetline, for operators', version, access })
}
