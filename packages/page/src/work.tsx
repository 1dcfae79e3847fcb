// The fleet's work besides the conversation: tasks by handler or machine, downstreams, and the newest tasks.
import type {
  SceneDownstream,
  SceneMachine,
  SceneTask,
  SceneWork,
} from '../../server/src/cli/dev/page/wire.ts'

export function Work({ work }: { readonly work: SceneWork | null }) {
  const isEmpty = work?.machines.length === 0 && work.downstreams.length + work.tasks.length === 0
  return (
    <section class="work" aria-label="Work">
      <h2>Work</h2>
      {!work ? (
        <p class="hint">The work cannot be read right now.</p>
      ) : isEmpty ? (
        <p class="hint">
          No tasks yet. Export a task from <code>app.ts</code> and run <code>fleetline dev app.ts</code>.
        </p>
      ) : (
        <>
          {work.machines.length > 0 && <Machines machines={work.machines} />}
          {work.tasks.map((task) => (
            <TaskRow key={task.id} task={task} />
          ))}
          {work.downstreams.map((downstream) => (
            <DownstreamRow key={downstream.key} downstream={downstream} />
          ))}
        </>
      )}
    </section>
  )
}

const COUNTS = [
  ['ready', 'ready', 'Can run now.'],
  ['waiting', 'waits', 'Runs later: it is planned for a time, or is tried again.'],
  ['claimed', 'runs', 'A pod runs it.'],
  ['held', 'held', 'Waits for somebody.'],
  ['dead', 'dead', 'Has used up its attempts.'],
] as const

function Machines({ machines }: { readonly machines: readonly SceneMachine[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>queue / task</th>
          {COUNTS.map(([state, label, title]) => (
            <th key={state} title={title}>
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {machines.map((machine) => (
          <tr key={`${machine.queue} ${machine.name}`}>
            <td>
              {machine.queue} / {machine.name}
            </td>
            {COUNTS.map(([state]) => (
              <td key={state} class={machine[state] === 0 ? 'none' : state}>
                {machine.isEstimated && machine[state] > 0 ? '≈' : ''}
                {machine[state]}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function TaskRow({ task: { id, machine, state, attempt, code } }: { readonly task: SceneTask }) {
  return (
    <p title={id}>
      {machine} <b class={state}>{state}</b>
      {attempt > 1 && ` · attempt ${attempt}`}
      {code !== null && ` · ${code}`}
    </p>
  )
}

function DownstreamRow({ downstream }: { readonly downstream: SceneDownstream }) {
  const { key, inFlight, capacity, pausedUntil } = downstream
  const limit = capacity === null ? 'no limit learnt yet' : `of ${capacity}`
  const pause =
    pausedUntil === null ? '' : ` · paused until ${new Date(pausedUntil).toLocaleTimeString('en-GB')}`
  return (
    <p>
      {key}: {Math.round(inFlight)} in flight, {limit}
      {pause}
    </p>
  )
}
