// Serves the page, forwards its requests to the fleet, and mints its tokens. Without an API key it works with a fleet of `fleetline dev`.
import react from '@vitejs/plugin-react'
import type { ServerResponse } from 'node:http'
import { defineConfig, type Connect, type Plugin, type ProxyOptions } from 'vite'

const { FLEETLINE_URL = 'http://localhost:4400', FLEETLINE_API_KEY } = process.env

/** Stands in for your back end. It takes everybody for Ada: replace it by your login. */
async function mint(response: ServerResponse): Promise<unknown> {
  const answer = await fetch(`${FLEETLINE_URL}/v1/tokens`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(FLEETLINE_API_KEY && { authorization: `Bearer ${FLEETLINE_API_KEY}` }),
    },
    body: JSON.stringify({ user: 'ada', rights: ['read', 'send', 'stop', 'create'] }),
  }).catch(() => undefined)
  if (!answer?.ok) return response.writeHead(503).end('There is no token now')
  const { token } = (await answer.json()) as { token: string }
  return response.writeHead(200, { 'cache-control': 'no-store' }).end(token)
}
const serve = ({ middlewares }: { readonly middlewares: Connect.Server }) =>
  void middlewares.use('/api/token', (_, response) => void mint(response))
const tokens: Plugin = { name: 'tokens', configureServer: serve, configurePreviewServer: serve }

/** If a stream breaks, the page must hear of it. Vite's proxy would keep the connection open. */
const configure: ProxyOptions['configure'] = (proxy) =>
  void proxy.on('proxyRes', (from, _, to) => from.once('close', () => from.complete || to.destroy()))

export default defineConfig({
  plugins: [react(), tokens],
  server: { proxy: { '/v1': { target: FLEETLINE_URL, ws: true, configure } } },
})
