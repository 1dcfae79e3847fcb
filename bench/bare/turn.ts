// The agent called directly, as a team would do without Fleetline: a request, the agent's chunks as server-sent events, nothing
// stored. It runs in a process of its own, as the pod does.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { speak } from '../support/speech.ts'

const server = createServer(async (request, response) => {
  for await (const _ of request); // reads the conversation
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for await (const chunk of speak()) response.write(`data: ${JSON.stringify(chunk)}\n\n`)
  response.end()
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
