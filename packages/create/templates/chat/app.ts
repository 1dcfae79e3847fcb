// The agent of this chat. With OPENAI_API_KEY a model of OpenAI answers; without it, a few lines of code do.
import { convertToModelMessages, streamText, toUIMessageStream, type UIMessage } from 'ai'
import { agent, type AgentCall } from 'fleetline'
import { onError } from 'fleetline/agent'

export const assistant = agent('assistant', async (call) =>
  process.env['OPENAI_API_KEY'] ? askModel(call) : sayWords(call),
)

async function askModel({ messages, signal }: AgentCall) {
  const { openai } = await import('@ai-sdk/openai')
  const { stream } = streamText({
    model: openai.chat(process.env['OPENAI_MODEL'] ?? 'gpt-5-mini'),
    messages: await convertToModelMessages(messages as UIMessage[]),
    abortSignal: signal, // aborted when the reply is stopped
  })
  return toUIMessageStream({ stream, onError })
}

async function* sayWords({ messages }: AgentCall) {
  const asked = messages.at(-1)!.parts.map(({ text }) => (typeof text === 'string' ? text : ''))
  const said = `You said: ${asked.join('')}. Set OPENAI_API_KEY and start again to talk to a model.`
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  for (const delta of said.match(/\S+\s*/g) ?? []) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    yield { type: 'text-delta', id: '1', delta }
  }
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
}
