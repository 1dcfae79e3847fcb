// The application's port.
import { withOpenapi } from '../door/openapi.ts'
import type { Route } from '../door/route.ts'
import { sessionRoutes, type SessionDeps } from './session-routes.ts'

type Deps = SessionDeps & { readonly version: string }

export function gatewayRoutes({ version, ...deps }: Deps): Route[] {
  return withOpenapi(sessionRoutes(deps), { title: 'Fleetline, for applications', version, audience: 'key' })
}
