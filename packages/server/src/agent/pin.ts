// Connections to addresses that were looked at, and to no other: the name of the host is not asked for again.
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { rangeList } from '../lib/hosts.ts'
import { AgentFault } from './fault.ts'

type Limits = { readonly timeout: number; readonly signal: AbortSignal }

export function connectorTo(addresses: readonly string[], limits: Limits): buildConnector.connector {
  const pinned = rangeList(addresses.map((address) => address.replace(/%.*/, '')))
  const options = {
    ...limits,
    lookup: lookupOf(addresses),
    autoSelectFamilyAttemptTimeout: Math.floor(limits.timeout / addresses.length), // each has its share
    allowH2: false,
    maxCachedSessions: 0,
  }
  const connect = buildConnector(options)
  return (target, callback) =>
    connect(target, (...[error, socket]) => {
      if (error) return callback(error, null)
      // A host that is an address itself is not looked up; that Node connects where it was told is not taken on trust.
      const { remoteAddress: address } = socket
      if (address !== undefined && pinned.has(address)) return callback(null, socket)
      socket.destroy()
      callback(address === undefined ? reset() : elsewhere(), null)
    })
}

/** One that is gone already led nowhere. */
function reset(): Error {
  return Object.assign(new Error('The connection was reset'), { code: 'ECONNRESET' })
}

function elsewhere(): AgentFault {
  return new AgentFault('agent_blocked', 'The connection led elsewhere', { isFinal: true })
}

function lookupOf(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIP(address) }))
  return (_name, { all }, callback) =>
    queueMicrotask(() => (all ? callback(null, found) : callback(null, found[0]!.address, found[0]!.family)))
}
