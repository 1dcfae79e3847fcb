// A server that speaks OpenAI's published chat completions protocol. It lists one embedding model and one chat model.
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import type { TestContext } from 'node:test'
import { agentServer, type Received } from './agent-server.ts'

/** Writes an answer. `nth` counts the answers, from 1. */
export type Speech = (response: ServerResponse, nth: number) => unknown

export async function modelServer(t: TestContext, speech: Speech = () => assert.fail('nobody asks it')) {
  const asked: Received[] = []
  const answer = (received: Received, response: ServerResponse) => {
    if (received.path === '/v1/models')
      return response.end(JSON.stringify({ data: [{ id: 'text-embedding-1' }, { id: 'talker' }] }))
    return speech(response, asked.push(received))
  }
  const { url } = await agentServer(t, answer)
  return { asked, url: `${new URL(url).origin}/v1` }
}

export function says(response: ServerResponse, ...deltas: readonly object[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const delta of deltas) response.write(eventOf({ choices: [{ index: 0, delta, finish_reason: null }] }))
}

export function ends(response: ServerResponse): void {
  response.write(eventOf({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }))
  response.end(`${eventOf({ choices: [], usage: {} })}data: [DONE]\n\n`)
}

export function eventOf(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`
}
