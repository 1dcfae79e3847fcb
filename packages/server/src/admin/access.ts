// What routes of the port for operators declare.
export const READ = { audience: 'admin', tenant: 'none', scope: 'admin:read' } as const
export const PODS_WRITE = { audience: 'admin', tenant: 'none', scope: 'pods:write' } as const
export const WRITE = { audience: 'admin', tenant: 'none', scope: 'admin:write' } as const
