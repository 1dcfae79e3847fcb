// A queue as the bench sees it: ours, the bare engine or a peer, each in processes of its own. Tasks are numbers.

export type Contestant = {
  /** In the largest calls that this queue takes well. */
  enqueueAll(numbers: readonly number[]): Promise<void>
  enqueue(number: number): Promise<void>
  /** Calls `run` for each task, in the setting that is best for the aim, until the answer is called. */
  work(run: (number: number) => void, aim: Aim): Promise<() => Promise<void>>
  close(): Promise<void>
}
export type Aim = 'drain' | 'latency'

/** What the module of a contestant exports. */
export type ContestantModule = {
  /** Makes what it needs in an empty database. */
  readonly prepare: (url: string) => Promise<void>
  readonly open: (url: string) => Promise<Contestant>
  /** A query with one row, whose `unfinished` tells whether there is a task that has not ended. */
  readonly UNFINISHED: string
}
