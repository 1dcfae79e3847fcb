// Parses bytes of `text/event-stream` into events, however the bytes were split on the way.

export type ServerEvent = { readonly id: string | undefined; readonly data: string }
type EventParser = {
  /** Returns the events that are complete now. Throws if an event is longer than any that a fleet sends. */
  readonly push: (bytes: Uint8Array) => ServerEvent[]
}

const LENGTH = 16 * 1024 * 1024

export function createEventParser(): EventParser {
  const decoder = new TextDecoder()
  let [rest, id, data, endsHalf]: [string, string | undefined, string[], boolean] = ['', undefined, [], false]

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
      const decoded = decoder.decode(bytes, { stream: true })
      if (decoded === '') return []
      const text = endsHalf && decoded.startsWith('\n') ? decoded.slice(1) : decoded
      endsHalf = decoded.endsWith('\r') // a following \n ends the same line
      const lines = text.split(/\r\n|\n|\r/)
      lines[0] = rest + lines[0]!
      rest = lines.pop()!
      const events = lines.flatMap(take)
      if (data.reduce((sum, line) => sum + line.length, rest.length) > LENGTH)
        throw new RangeError(`An event is longer than ${LENGTH} characters`)
      return events
    },
  }
}
