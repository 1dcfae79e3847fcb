// Bytes are split anywhere and lines end in any way. The events are those that another parser finds in the whole text.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createParser } from 'eventsource-parser'
import * as fc from 'fast-check'
import { createEventParser } from '../../src/event-parser.ts'

const line = fc.oneof(
  fc.constantFrom(
    '',
    ':',
    ': a comment',
    'event: turn',
    'id: 7.1',
    'id',
    'data',
    'data:',
    'data:  x',
    'retry: 10',
  ),
  fc.string({ unit: 'grapheme', maxLength: 8 }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, '')}`),
)
const stream = fc.array(fc.tuple(line, fc.constantFrom('\n', '\n', '\n\n', '\r\n', '\r')), { maxLength: 30 })

function eventsOf(text: string, cuts: readonly number[]) {
  const [parser, bytes] = [createEventParser(), new TextEncoder().encode(text)]
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return places.flatMap((place, index) => parser.push(bytes.subarray(place, places[index + 1] ?? place)))
}

function expectedOf(text: string) {
  const events: { id: string | undefined; data: string }[] = []
  const parser = createParser({
    onEvent: ({ id, data }) => {
      if (data !== '') events.push({ id, data })
    },
  })
  parser.feed(text)
  return events
}

test('events are the same, wherever their bytes were split', () => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat(400), { maxLength: 12 }), (lines, cuts) => {
      const text = `${lines.flat().join('')}data: last\n\n`
      assert.deepEqual(eventsOf(text, cuts), expectedOf(text))
    }),
    { numRuns: 2_000 },
  )
})

test('an endless event is refused before it fills the memory', () => {
  const [parser, piece] = [createEventParser(), new Uint8Array(4 * 1024 * 1024).fill(120)]
  assert.throws(() => Array.from({ length: 5 }, () => parser.push(piece)), /longer than/)
})
