// Connects only to addresses that were checked. The host name is not resolved again.
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
    autoSelectFamilyAttemptTimeout: Math.floor(limits.timeout / addresses.length), // each address has its share of the time
    allowH2: false,
    maxCachedSessions: 0,
  }
  const connect = buildConnector(options)
  return (target, callback) =>
    connect(target, (...[error, socket]) => {
      if (error) return callback(error, null)
      // Node does not call `lookup` for a host that is an address itself. So every connection is checked, instead of trusting that
      // it goes where it should.
      const { remoteAddress: address } = socket
      if (address !== undefined && pinned.has(address)) return callback(null, socket)
      socket.destroy()
      callback(address === undefined ? reset() : elsewhere(), null)
    })
}

/** The socket has no remote address because it is closed already. */
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
