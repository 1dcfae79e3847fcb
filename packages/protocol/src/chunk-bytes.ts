// Splits the bytes of an agent's answer into the texts of its chunks, however the bytes were split on the way. The answer is
// server-sent events, as the AI SDK sends them, or one chunk per line. Comments and blank lines are signs of life. Memory use is
// bounded, even for an event with a million lines.
import { ChunkError } from './chunk.ts'

export type ChunkDecoder = {
  /** Returns the texts that are complete now. Throws a ChunkError if the bytes cannot be chunks. */
  readonly push: (bytes: Uint8Array) => string[]
  /** Returns the rest after the last bytes. A last line without a line end counts; an unfinished event does not. */
  readonly end: () => string[]
}

/** The most characters of a line, or of an event with its line ends. */
export const CHUNK_LENGTH = 1_048_576

const IGNORED = /^(?::|event:|id:|retry:)/
const DONE = '[DONE]'

export function createChunkDecoder(): ChunkDecoder {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let [rest, event, length]: [string, string[], number] = ['', [], 0]

  const take = (line: string): string[] => {
    if (line.startsWith('{')) return [line]
    if (line.startsWith('data:')) {
      event.push(line.slice(line.startsWith('data: ') ? 6 : 5))
      length += line.length
    } else if (line === '' && event.length > 0) {
      const data = event.join('\n')
      ;[event, length] = [[], 0]
      return data === DONE ? [] : [data]
    } else if (line !== '' && !IGNORED.test(line))
      throw new ChunkError('A line is neither a chunk nor an event')
    return []
  }
  const read = (bytes?: Uint8Array): string => {
    try {
      return bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode()
    } catch (cause) {
      throw new ChunkError('The answer is not UTF-8', { cause })
    }
  }
  return {
    push: (bytes) => {
      const lines = read(bytes).split('\n')
      lines[0] = rest + lines[0]!
      rest = lines.pop()!
      const chunks = lines.flatMap((line) => take(line.endsWith('\r') ? line.slice(0, -1) : line))
      if (length + rest.length > CHUNK_LENGTH)
        throw new ChunkError(`A chunk is longer than ${CHUNK_LENGTH} characters`)
      return chunks
    },
    end: () => {
      const last = rest + read()
      rest = ''
      return last === '' ? [] : take(last)
    },
  }
}
