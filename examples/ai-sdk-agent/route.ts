// An agent with the AI SDK: the same route that its chat pages call. `verify` and `onError` are added, and
// `messageMetadata` reports how many tokens the reply has used.
import { convertToModelMessages, createUIMessageStreamResponse, streamText, toUIMessageStream } from 'ai'
import type { UIMessage } from 'ai'
import { onError, SignatureError, verify } from 'fleetline/agent'
import { model } from './model.ts'

export async function POST(request: Request): Promise<Response> {
  try {
    const { messages } = await verify(request, process.env['AGENT_SECRET']!)
    const result = streamText({
      model,
      messages: await convertToModelMessages(messages as UIMessage[]),
      abortSignal: request.signal, // aborted when the reply is stopped
    })
    const stream = toUIMessageStream({
      stream: result.stream,
      onError,
      messageMetadata: ({ part }) =>
        part.type === 'finish' ? { model: model.modelId, usage: part.totalUsage } : undefined,
    })
    return createUIMessageStreamResponse({ stream })
  } catch (error) {
    if (!(error instanceof SignatureError)) throw error
    return new Response(error.message, { status: error.status })
  }
}
