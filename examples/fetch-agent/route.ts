// An agent as a handler of the Fetch API: nothing but `verify` is ours. It says what it was told, word by word.
import { setTimeout } from 'node:timers/promises'
import { SignatureError, verify, type AgentRequest } from 'fleetline/agent'

export async function POST(request: Request): Promise<Response> {
  try {
    const call = await verify(request, process.env['AGENT_SECRET']!)
    const lines = ReadableStream.from(answer(call)).pipeThrough(new TextEncoderStream())
    return new Response(lines, { headers: { 'content-type': 'application/x-ndjson' } })
  } catch (error) {
    if (!(error instanceof SignatureError)) throw error
    return new Response(error.message, { status: error.status })
  }
}

/** Chunks of the AI SDK's UI message stream, one a line. */
async function* answer({ messages }: AgentRequest): AsyncGenerator<string> {
  const line = (chunk: object) => `${JSON.stringify(chunk)}\n`
  const asked = messages.at(-1)!.parts.map(({ text }) => (typeof text === 'string' ? text : ''))
  yield line({ type: 'start' })
  yield line({ type: 'text-start', id: '1' })
  for (const word of `You said: ${asked.join(' ')}`.match(/\S+\s*/g)!) {
    yield line({ type: 'text-delta', id: '1', delta: word })
    await setTimeout(50) // a model takes its time
  }
  yield line({ type: 'text-end', id: '1' })
  yield line({ type: 'finish' })
}
