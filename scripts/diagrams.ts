// Makes the diagrams of docs/how-it-works.md from tables. `npm run docs` writes them; a test compares them.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawSequence, type Diagram } from './sequence-diagram.ts'

export const DIAGRAM_FOLDER: string = join(import.meta.dirname, '../docs/pictures')

const DATABASE = 'PostgreSQL'

const MESSAGE: Diagram = {
  title: 'The way of a message, from its sender to a reader on another pod',
  participants: ['Sender', 'Pod A', DATABASE, 'Pod B', 'Reader'],
  steps: [
    { from: 'Sender', to: 'Pod A', text: 'a message with its id' },
    { at: 'Pod A', note: 'puts it into its next batch' },
    { from: 'Pod A', to: DATABASE, text: 'lock the session' },
    { from: 'Pod A', to: DATABASE, text: 'what is stored under this id?' },
    { from: DATABASE, to: 'Pod A', text: 'nothing; the head is seq 6' },
    { from: 'Pod A', to: DATABASE, text: 'write it as seq 7, and commit' },
    { from: DATABASE, to: 'Pod A', text: 'committed' },
    { from: 'Pod A', to: 'Sender', text: 'stored as seq 7' },
    { from: 'Pod A', to: DATABASE, text: 'hint', kind: 'hint' },
    { from: DATABASE, to: 'Pod B', text: 'hint', kind: 'hint' },
    { from: 'Pod B', to: DATABASE, text: 'what follows seq 6?' },
    { from: DATABASE, to: 'Pod B', text: 'seq 7' },
    { from: 'Pod B', to: 'Reader', text: 'the message, seq 7' },
  ],
}

const TURN: Diagram = {
  title: 'The way of a turn, from the message that asks for a reply to the stored reply',
  participants: ['Device', 'Pod A', DATABASE, 'Pod B', 'Agent'],
  steps: [
    { from: 'Device', to: 'Pod A', text: 'a message' },
    { from: 'Pod A', to: DATABASE, text: 'one commit: message, turn and task' },
    { from: 'Pod A', to: 'Device', text: 'stored' },
    { from: 'Pod B', to: DATABASE, text: 'claim the task: attempt 1' },
    { from: 'Pod B', to: DATABASE, text: 'is the turn current?' },
    { from: 'Pod B', to: DATABASE, text: 'read the log' },
    { from: 'Pod B', to: 'Agent', text: 'the conversation' },
    { from: 'Agent', to: 'Pod B', text: 'chunks' },
    { from: 'Pod B', to: DATABASE, text: 'new chunks, once per tick' },
    { from: DATABASE, to: 'Pod A', text: 'new chunks, once per tick' },
    { from: 'Pod A', to: 'Device', text: 'chunks, live' },
    { from: 'Agent', to: 'Pod B', text: 'the end of the reply' },
    { from: 'Pod B', to: DATABASE, text: 'one commit: reply, end of the turn and of the task' },
    { from: 'Pod B', to: 'Pod A', text: 'hint, through PostgreSQL', kind: 'hint' },
    { from: 'Pod A', to: DATABASE, text: 'what is new?' },
    { from: 'Pod A', to: 'Device', text: 'the stored reply' },
  ],
}

const TASK: Diagram = {
  title: 'The way of a task with two transitions, through the pause of the pod that runs it',
  participants: ['Program', DATABASE, 'Pod A', 'Pod B', 'Leader'],
  steps: [
    { from: 'Program', to: DATABASE, text: 'enqueue a task: one row' },
    { from: 'Pod A', to: DATABASE, text: 'claim it: attempt 1' },
    { at: 'Pod A', note: 'runs the first transition' },
    { from: 'Pod A', to: DATABASE, text: 'record its output' },
    { at: 'Pod A', note: 'begins the second transition' },
    { event: 'Pod A is paused. Its beat does not change for 5 seconds.' },
    { from: 'Leader', to: DATABASE, text: 'Pod A is dead: return its claims to the queue' },
    { from: 'Pod B', to: DATABASE, text: 'claim it: attempt 2, with the recorded output' },
    { at: 'Pod B', note: 'runs the second transition' },
    { from: 'Pod B', to: DATABASE, text: 'settle: the row moves to the history' },
    { event: 'Pod A wakes, and does not know yet that it counts as dead.' },
    { from: 'Pod A', to: DATABASE, text: 'settle attempt 1' },
    { from: DATABASE, to: 'Pod A', text: 'no row changed: fenced', kind: 'refused' },
  ],
}

/** The pictures by their file names. */
export function diagrams(): ReadonlyMap<string, string> {
  return new Map([
    ['way-of-a-message.svg', drawSequence(MESSAGE)],
    ['way-of-a-turn.svg', drawSequence(TURN)],
    ['way-of-a-task.svg', drawSequence(TASK)],
  ])
}

if (import.meta.main)
  for (const [name, picture] of diagrams()) writeFileSync(join(DIAGRAM_FOLDER, name), picture)
