// Users have no tokens yet, so pods accept local connections only. Listening on a loopback address does most of that.
// But a web page in a browser on this machine can still reach a local port, through a host name that points here (DNS
// rebinding) or across origins. So a request must name a loopback host and come from a loopback page or from no page.
import { isIPv4 } from 'node:net'

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

function isLoopbackName(name: string): boolean {
  return name === 'localhost' || name === '[::1]' || (isIPv4(name) && name.startsWith('127.'))
}
