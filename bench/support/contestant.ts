// A queue as the bench sees it: ours, the bare engine or a peer, each in processes of its own. Tasks are numbers.

export type Contestant = {
  /** Enqueues in the largest calls that this queue handles well. */
  enqueueAll(numbers: readonly number[]): Promise<void>
  enqueue(number: number): Promise<void>
  /** Calls `run` for each task, in the best setting for the aim, until the returned function is called. */
  work(run: (number: number) => void, aim: Aim): Promise<() => Promise<void>>
  close(): Promise<void>
}
export type Aim = 'drain' | 'latency'

/** What the module of a contestant exports. */
export type ContestantModule = {
  /** Creates what the contestant needs in an empty database. */
  readonly prepare: (url: string) => Promise<void>
  readonly open: (url: string) => Promise<Contestant>
  /** A query with one row. Its `unfinished` is true while a task has not ended. */
  readonly UNFINISHED: string
}
