// The application's port. What an application can do comes with its rooms; now it can ask what there is.
import { withOpenapi } from '../door/openapi.ts'
import type { Route } from '../door/route.ts'

export function gatewayRoutes({ version }: { readonly version: string }): Route[] {
  return withOpenapi([], { title: 'Fleetline, for applications', version, audience: 'key' })
}
