// What belongs to this machine: addresses, hosts that a request names, and pages that send it. A web page in a browser on this
// machine can reach a local port through a host name that points here (DNS rebinding) or across origins. So a caller who is let
// in because it is local must name a loopback host, and come from a loopback page or from no page.
import { isIPv4 } from 'node:net'

/** `host` is the header: a name or an address, with a port or without. */
export function isLoopbackHost(host: string | undefined): boolean {
  if (host === undefined || !/^[\w.:[\]-]+$/.test(host) || !URL.canParse(`http://${host}`)) return false
  return isLoopbackName(new URL(`http://${host}`).hostname)
}

export function isLoopbackOrigin(origin: string | undefined): boolean {
  if (origin === undefined) return true // not a browser, or a page of the same origin that only reads
  return (
    URL.canParse(origin) &&
    /^https?:$/.test(new URL(origin).protocol) &&
    isLoopbackName(new URL(origin).hostname)
  )
}

/** An address, or the name `localhost`. */
export function isLoopbackAddress(address: string): boolean {
  const plain = plainAddress(address)
  return plain === '::1' || isLoopbackName(plain)
}

/** Without a zone. Writes an IPv4 address that came over an IPv6 socket as IPv4. */
export function plainAddress(address: string): string {
  const [plain = ''] = address.split('%')
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i.exec(plain) ?? []
  if (high === undefined || low === undefined) return plain.replace(/^::ffff:(?=\d+\.)/i, '')
  const bytes = [high, low].flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255])
  return bytes.join('.')
}

function isLoopbackName(name: string): boolean {
  return name === 'localhost' || name === '[::1]' || (isIPv4(name) && name.startsWith('127.'))
}
