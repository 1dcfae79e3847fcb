// Decides which URLs may be called (S13). Tenants choose them, and pods call them from inside the operator's network. So only
// hosts that anybody can reach are called: https, the default port, a public address. An operator can open others.
//   the host                        is resolved by                is called
//   opened by name                  this machine, as usual        at any address
//   a literal address, localhost    nobody                        if it is open or public
//   any other name                  the name servers, once        if all its addresses are open or public
// A host that is public but not opened is called by https on port 443 only. Connections go to the addresses returned here,
// without another lookup: by then the name may resolve to something else.
import { isIP } from 'node:net'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { hostOf, rangeList, type Hosts } from '../lib/hosts.ts'
import { AgentFault } from './fault.ts'
import { createNames } from './names.ts'

export type AddressGuard = {
  /** Rejects a URL that will not be called, as far as that can be decided without resolving its name. The error names the field. */
  check(url: URL, field?: string): void
  /** The addresses to connect to, at least one. */
  addressesOf(url: URL, signal: AbortSignal): Promise<readonly string[]>
}
type Deps = {
  readonly open: Hosts
  readonly clock: Clock
  readonly nameServers?: readonly string[]
}

// https://www.iana.org/assignments/iana-ipv4-special-registry, multicast, and 168.63.129.16: in Azure, the host's own agent.
const INSIDE = rangeList(
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16'.split(
    ' ',
  ),
)
// IPv6: only ranges that are assigned to networks, without those that hold an IPv4 address or are for documentation.
const GIVEN_OUT = rangeList(['2000::/3'])
const GIVEN_OUT_BUT = rangeList(['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'])

const LOOPBACK = '127.0.0.1'
const MOST = 16 // addresses to try

const OPENS = 'FLEETLINE_AGENT_HOSTS'
const NOT_PUBLIC = `must not lead to an address that is not public, unless an operator opens it with ${OPENS}`
const NOT_USUAL = `must begin with https:// and have no port, unless an operator opens its host with ${OPENS}`

export function createGuard({ open, ...deps }: Deps): AddressGuard {
  const names = createNames(deps)
  const refusalOf = (url: URL, addresses: readonly string[]): string | undefined => {
    const closed = addresses.filter((address) => !open.hasAddress(address))
    if (closed.some((address) => !isPublic(address))) return NOT_PUBLIC
    return closed.length > 0 && !isUsual(url) ? NOT_USUAL : undefined
  }
  return {
    check: (url, field = 'url') => {
      const host = hostOf(url)
      if (open.hasName(host)) return
      const known = addressIn(host)
      const unknown = isUsual(url) || open.hasRanges ? undefined : NOT_USUAL
      const refusal = known === undefined ? unknown : refusalOf(url, [known])
      if (refusal !== undefined) throw new Rejected('invalid', `${field}: ${refusal}`)
    },
    addressesOf: async (url, signal) => {
      const host = hostOf(url)
      if (open.hasName(host)) return names.trusted(host, signal)
      const known = addressIn(host)
      const addresses = known === undefined ? await names.asked(host, signal) : [known]
      const refusal = refusalOf(url, addresses)
      if (refusal !== undefined)
        throw new AgentFault('agent_blocked', `The URL of the agent ${refusal}`, { isFinal: true })
      return addresses.slice(0, MOST)
    },
  }
}

export function isPublic(address: string): boolean {
  if (isIP(address) === 4) return !INSIDE.has(address)
  return GIVEN_OUT.has(address) && !GIVEN_OUT_BUT.has(address)
}

/** The address of a host that needs no lookup. */
function addressIn(host: string): string | undefined {
  if (isIP(host) !== 0) return host
  return host === 'localhost' || host.endsWith('.localhost') ? LOOPBACK : undefined
}

function isUsual({ protocol, port }: URL): boolean {
  return protocol === 'https:' && port === ''
}
