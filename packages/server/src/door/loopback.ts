// Until there are keys, a pod answers its own machine alone. Its address sees to most of that; a page from anywhere
// that runs in a browser on this machine can still reach a local port, under a name that it points here (DNS
// rebinding) or across origins. So a request must ask for a loopback host, and come from a loopback page or from none.
import { isIPv4 } from 'node:net'

export function isLoopbackHost(host: string | undefined): boolean {
  if (host === undefined || !/^[\w.:[\]-]+$/.test(host) || !URL.canParse(`http://${host}`)) return false
  return isLoopbackName(new URL(`http://${host}`).hostname)
}

export function isLoopbackOrigin(origin: string | undefined): boolean {
  if (origin === undefined) return true // no browser, or a page of the same origin that only reads
  return (
    URL.canParse(origin) &&
    /^https?:$/.test(new URL(origin).protocol) &&
    isLoopbackName(new URL(origin).hostname)
  )
}

function isLoopbackName(name: string): boolean {
  return name === 'localhost' || name === '[::1]' || (isIPv4(name) && name.startsWith('127.'))
}
