// A task that calls a provider whose limit nobody has told us.
import { task } from 'fleetline'

const { PROVIDER = 'http://localhost:8080' } = process.env

export const ask = task(
  'ask',
  async ({ call, signal }) => {
    const response = await fetch(PROVIDER, { signal })
    call.response(response.status, response.headers)
    if (!response.ok) throw new Error(`The provider answered with ${response.status}`)
    call.firstToken()
    return response.text()
  },
  { downstream: 'example/account' },
)
