// Where a request comes from. The header `x-forwarded-for` counts only as far as trusted proxies have written it: anybody can
// send one.
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { Addresses } from '../lib/hosts.ts'
import { isLoopbackAddress, isLoopbackHost, isLoopbackOrigin, plainAddress } from '../lib/loopback.ts'

type Request = Pick<IncomingMessage, 'headers'> & {
  readonly socket: { readonly remoteAddress?: string | undefined }
}
type Versioned = Request & Pick<IncomingMessage, 'httpVersion'>

const WRITTEN_BY_PROXIES =
  /^(?:x-forwarded-.*|forwarded|via|x-real-ip|x-client-ip|true-client-ip|cf-connecting-ip)$/

/** The address of the client: from the socket on, the first one that is not a trusted proxy's. */
export function addressOf({ socket, headers }: Request, trusted: Addresses): string {
  const hops = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',')
  let address = plainAddress(socket.remoteAddress ?? '')
  while (isIP(address) !== 0 && trusted.has(address)) {
    const before = plainAddress(withoutPort((hops.pop() ?? '').trim()))
    if (isIP(before) === 0) break
    address = before
  }
  return address
}

/** Whether the request comes from this machine without a proxy, as far as a pod can tell. By default nginx adds no header: releases before
 *  1.29.7 are recognized because they speak HTTP/1.0 to pods; later ones speak HTTP/1.1 and are not. Direct clients use HTTP/1.1, so any
 *  other version means a proxy. */
export function isLocal({ socket, headers, httpVersion }: Versioned): boolean {
  const isOfProxy = Object.keys(headers).some((name) => WRITTEN_BY_PROXIES.test(name))
  const isHere = isLoopbackAddress(socket.remoteAddress ?? '') && isLoopbackHost(headers.host)
  return isHere && !isOfProxy && httpVersion === '1.1' && isLoopbackOrigin(headers.origin)
}

/** Some proxies write the port of the client, too. */
function withoutPort(text: string): string {
  return text.replace(/^\[(.+)\](?::\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1')
}
