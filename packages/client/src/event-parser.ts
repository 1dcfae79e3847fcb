// Bytes of `text/event-stream`, however they were split on the way, become events.

export type ServerEvent = { readonly id: string | undefined; readonly data: string }
export type EventParser = {
  /** The events that are whole now. Throws if one is longer than any that a fleet sends. */
  readonly push: (bytes: Uint8Array) => ServerEvent[]
}

const LENGTH = 16 * 1024 * 1024

export function createEventParser(): EventParser {
  const decoder = new TextDecoder()
  let [rest, id, data]: [string, string | undefined, string[]] = ['', undefined, []]

  const take = (line: string): ServerEvent[] => {
    if (line === '') {
      const event = { id, data: data.join('\n') }
      ;[id, data] = [undefined, []]
      return event.data === '' ? [] : [event]
    }
    const [, name, value = ''] = /^([^:]*)(?:: ?([^]*))?$/.exec(line)!
    if (name === 'data') data.push(value)
    if (name === 'id') id = value
    return []
  }
  return {
    push: (bytes) => {
      const text = rest + decoder.decode(bytes, { stream: true })
      const isHalf = text.endsWith('\r') // its \n may still come
      const lines = (isHalf ? text.slice(0, -1) : text).split(/\r\n|\n|\r/)
      rest = lines.pop()! + (isHalf ? '\r' : '')
      if (data.reduce((sum, line) => sum + line.length, rest.length) > LENGTH)
        throw new RangeError(`An event is longer than ${LENGTH} characters`)
      return lines.flatMap(take)
    },
  }
}
