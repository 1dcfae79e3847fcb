// The network of a caller's address, for limits per address. A caller with IPv6 usually has a whole /64, and could use another
// address for each request. So addresses of one /64 have the same network. An IPv4 address is a network of its own.
import { isIPv6 } from 'node:net'
import { plainAddress } from './loopback.ts'

const NETWORK_GROUPS = 4
const GROUPS = 8

export function networkOf(address: string): string {
  const plain = plainAddress(address)
  if (!isIPv6(plain)) return plain
  const [front = [], back = []] = plain.split('::').map((part) => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: GROUPS - front.length - back.length }, () => '0')
  return `${[...front, ...zeros, ...back].slice(0, NETWORK_GROUPS).join(':')}::/64`
}
