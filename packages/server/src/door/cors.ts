// Which web pages may read our answers in a browser (S36): those of the listed origins. Cookies are never allowed: a caller is
// known by its `authorization` header alone. A page of another origin gets answers without these headers, so its browser hides
// them from it.
import type { IncomingMessage } from 'node:http'
import type { Origins } from '../lib/origins.ts'

type Headers = Readonly<Record<string, string>>

const PREFLIGHT_SECONDS = '600'

/** The headers for a request from a page. */
export function corsHeaders(
  { headers: { origin } }: Pick<IncomingMessage, 'headers'>,
  origins: Origins,
): Headers {
  if (origins.isNone) return {}
  const vary = { vary: 'origin' } // so that no cache gives the answer for one origin to another
  if (origin === undefined || !origins.has(origin)) return vary
  return {
    ...vary,
    'access-control-allow-origin': origin,
    'access-control-expose-headers':
      'x-request-id, retry-after, x-fleetline-turn, x-fleetline-epoch, x-fleetline-seq',
  }
}

/** Whether a browser asks if it may send a request. */
export function isPreflight({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
}

/** What an allowed page may send. */
export const PREFLIGHT_HEADERS: Headers = {
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers': 'authorization, content-type, last-event-id, x-fleetline-ai-sdk',
  'access-control-max-age': PREFLIGHT_SECONDS,
}
