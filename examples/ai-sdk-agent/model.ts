// Stands in for your model, for example `openai('gpt-5-mini')` of `@ai-sdk/openai`. It repeats the message that it gets.
import { simulateReadableStream } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
}

export const model: MockLanguageModelV4 = new MockLanguageModelV4({
  doStream: async ({ prompt }) => {
    const last = prompt.at(-1)
    const [asked] = last?.role === 'user' ? last.content : []
    const said = `You said: ${asked?.type === 'text' ? asked.text : 'nothing'}`
    return {
      stream: simulateReadableStream({
        chunkDelayInMs: 50,
        chunks: [
          { type: 'text-start', id: '1' },
          ...said.match(/\S+\s*/g)!.map((delta) => ({ type: 'text-delta' as const, id: '1', delta })),
          { type: 'text-end', id: '1' },
          { type: 'finish', finishReason: { unified: 'stop', raw: undefined }, usage: USAGE },
        ],
      }),
    }
  },
})
