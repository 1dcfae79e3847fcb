// fleetline sessions tail: prints the log of a session as it grows. A reply is shown when it is stored in the log.
import type { Frame, Item } from '@fleetline/protocol'
import { systemClock } from '../../lib/clock.ts'
import { systemRandom } from '../../lib/random.ts'
import { apiOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { followFrames, phraseOf } from '../frames.ts'
import { seqOf } from '../options.ts'
import { EXIT, type Output } from '../output.ts'
import { stopSignal } from '../stop-signal.ts'

export async function tail({ flags, args, options, output }: CommandCall): Promise<number> {
  const [clock, random] = [systemClock(), systemRandom()]
  const after = seqOf('--after', options['after'] ?? '0')
  const { openEvents } = apiOf({ flags, output })
  const path = `/sessions/${encodeURIComponent(args[0]!)}/events?after=${after}`
  const onLost = () => output.note('The stream ended or was lost: coming back.')
  const stopping = new AbortController()
  void stopSignal().first.then(() => stopping.abort())
  const frames = followFrames(
    { openEvents, clock, random, onLost },
    { path, isKnown: false },
    stopping.signal,
  )
  for await (const frame of frames) show(output, frame)
  return EXIT.done
}

function show(output: Output, frame: Frame): void {
  switch (frame.type) {
    case 'messages':
      for (const item of frame.items) output.next([item.seq, item.at, whoOf(item), textOf(item)], item)
      return
    case 'gap':
      if (output.isJson) output.one(frame)
      else
        output.note(
          `The session ends before seq ${frame.from - 1}: PostgreSQL may have returned to an earlier state, after a restore or a failover. Messages printed up to seq ${frame.from - 1} may no longer exist.`,
        )
      return
    case 'erased':
      if (output.isJson) output.one(frame)
      else output.note(`Erased messages: seq ${frame.seqs.join(', ')}`)
      return
    case 'turn':
      return output.note(phraseOf(frame.turn))
    case 'chunks':
      return
  }
}

function whoOf({ author: { kind, id } }: Item): string {
  return id === undefined ? kind : `${kind} ${id}`
}

/** Prints text parts as they are, and other parts as their type. */
function textOf({ parts }: Item): string {
  return parts
    .map(({ type, text }) => (type === 'text' && typeof text === 'string' ? text : `[${type}]`))
    .join(' ')
}
