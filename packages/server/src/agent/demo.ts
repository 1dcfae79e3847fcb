// The agent of `fleetline dev`. It needs no model and gives the same reply to the same message, so that you can kill its pod
// and see that nothing is lost or doubled.
//   a message with the word   its reply
//   long                      takes a minute
//   fail                      comes at the third attempt: two fail
//   slow                      comes after 20 seconds of silence
//   think                     comes after some reasoning, in markdown
//   anything else             repeats the message, word by word
import type { Message } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import { agent, type AgentAnswer, type AgentCall, type AgentDefinition } from './agent.ts'

type Deps = { readonly clock: Pick<Clock, 'sleep'> }

const WORD_MS = 100
const SILENCE_MS = 20_000

export function demoAgent({ clock }: Deps): AgentDefinition {
  return agent('demo', ({ messages, turn, signal }) => {
    const said = textOf(messages.findLast(({ role }) => role === 'user'))
    const has = (word: string) => new RegExp(`\\b${word}\\b`, 'i').test(said)
    if (has('fail') && turn.attempt <= 2)
      throw new Error(`The demo agent was asked to fail: ${turn.attempt} of 2`)
    const text = has('long') ? POEM : has('think') ? CONCLUSION : `You said: ${said}`
    const thought = has('think') ? THOUGHT : ''
    return speak({ clock }, { thought, text, silenceMs: has('slow') ? SILENCE_MS : 0, signal })
  })
}

type Speech = {
  readonly thought: string
  readonly text: string
  readonly silenceMs: number
  readonly signal: AgentCall['signal']
}

async function* speak({ clock }: Deps, { thought, text, silenceMs, signal }: Speech): AgentAnswer {
  if (silenceMs > 0) await clock.sleep(silenceMs, signal)
  yield { type: 'start' }
  for (const [kind, words] of [
    ['reasoning', thought],
    ['text', text],
  ] as const) {
    if (words === '') continue
    yield { type: `${kind}-start`, id: kind }
    for (const delta of words.match(/\S+\s*|\s+/g) ?? []) {
      yield { type: `${kind}-delta`, id: kind, delta }
      await clock.sleep(WORD_MS, signal)
    }
    yield { type: `${kind}-end`, id: kind }
  }
  yield { type: 'finish' }
}

function textOf(message: Message | undefined): string {
  return (message?.parts ?? []).map(({ text }) => (typeof text === 'string' ? text : '')).join(' ')
}

const LINES = [
  'A pod may fall, and still the line holds.',
  'Its rows remember every word that it had said.',
  'Another pod takes up the turn and starts anew,',
  'and who was reading reads the whole of it.',
]
/** Enough words for a minute. */
const POEM = Array.from({ length: 60 }, (_, n) => `${n + 1}. ${LINES[n % LINES.length]}`).join('\n')

const THOUGHT =
  'A pod that is killed says no more. What it had said is in rows, and so is the turn. So another one can go on.'
const CONCLUSION = `A reply outlives its pod, in **three steps**:

1. the turn is a row, claimed by a pod under a *fence*
2. the pod dies; its beats stop, and the leader returns the claim
3. another pod takes it, and the old one could write no more

| who | holds |
|---|---|
| PostgreSQL | everything |
| a pod | nothing |

\`\`\`sh
kill -9 $(cat .fleetline/pod-1.pid)
\`\`\`
`
