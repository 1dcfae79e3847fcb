// A route handler of Next.js: it gives a page the token of the user who is logged in. The API key stays on the server.
import { userOf } from './login.ts'

const { FLEETLINE_URL, FLEETLINE_API_KEY } = process.env

export async function POST(request: Request): Promise<Response> {
  const user = await userOf(request)
  if (user === undefined) return new Response('Log in first', { status: 401 })
  const answer = await fetch(`${FLEETLINE_URL}/v1/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${FLEETLINE_API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ user }),
    signal: AbortSignal.timeout(10_000),
  })
  if (!answer.ok) return new Response('There is no token now', { status: 503 })
  const { token } = (await answer.json()) as { token: string }
  return new Response(token, { headers: { 'cache-control': 'no-store' } })
}
