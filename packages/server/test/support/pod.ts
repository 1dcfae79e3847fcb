// A pod in the test's own process. It prints nothing and listens on free ports.
import type { TestContext } from 'node:test'
import type { AgentDefinition } from '../../src/agent/agent.ts'
import { loadConfig } from '../../src/config.ts'
import { createPod, type Pod } from '../../src/pod.ts'
import type { DownstreamDefinition } from '../../src/throttle/definition.ts'
import type { Machine } from '../../src/task/machine.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { atEnd } from './cleanup.ts'
import { TOKEN_KEYS } from './tokens.ts'

/** What the server of tests, its role and the keys of tests need. */
export const OF_CLUSTER = 'fsync,synchronous-commit,superuser,secrets'
/** Nobody is let in without a key or a token. */
export const CLOSED: Flags = { allowInsecure: OF_CLUSTER, tokenKeys: TOKEN_KEYS }

type Flags = Readonly<Record<string, string>>
type Parts = {
  readonly tasks?: readonly Machine[]
  readonly agents?: readonly AgentDefinition[]
  readonly downstreams?: readonly DownstreamDefinition[]
  /** Collects the lines of the pod's log. */
  readonly lines?: string[]
}

export function newPod(
  t: TestContext,
  url: string,
  more: Flags = {},
  { tasks = [], agents, downstreams = [], lines }: Parts = {},
): Pod {
  const patience = {
    transactionDeadlineMs: '60000',
    idleTransactionMs: '60000',
    unreadyMs: '0',
    drainMs: '15000',
    stopMs: '60000',
    ttlMs: '60000',
    beatMs: '200',
  }
  const open = { port: '0', operatorPort: '0', allowInsecure: `authentication,${OF_CLUSTER}` }
  const flags = { databaseUrl: url, ...open, ...patience, ...more }
  const log = createLog({ level: 'info', destination: { write: (line) => void lines?.push(line) } })
  const pod = createPod(loadConfig({ environment: {}, flags }), {
    log,
    tasks,
    downstreams,
    ...(agents && { agents }),
  })
  atEnd(t, () => pod.stop())
  return pod
}

/** Starts a pod. Resolves to it and the URLs of its gateway and admin servers, without a slash at the end. */
export async function podOn(t: TestContext, url: string, flags: Flags = {}, parts: Parts = {}) {
  const pod = newPod(t, url, flags, parts)
  await pod.start()
  const { gateway, admin } = pod.ports()
  return { pod, gateway: `http://127.0.0.1:${gateway}`, admin: `http://127.0.0.1:${admin}` }
}
