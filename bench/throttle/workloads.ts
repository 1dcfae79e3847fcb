// The simulated workloads: a provider with an unknown limit on concurrent calls, and pods that have more to send than it accepts.

export type Workload = {
  readonly name: string
  readonly what: string
  readonly endMs: number
  /** How many concurrent calls the provider accepts at that time. */
  readonly capacityAt: (ms: number) => number
  /** How many pods run at that time. The number never falls. */
  readonly podsAt: (ms: number) => number
}
/** What a rejection costs: nothing, or a Retry-After. Every entrant obeys it by pausing the pod that received it. */
export type Variant = { readonly name: string; readonly retryAfterMs: number | undefined }

export const CALL = {
  wholeMs: { mean: 2_000, cv: 0.5 },
  firstMs: { mean: 400, cv: 0.3 },
  refusedMs: 150,
}
const CAPACITY = 80
export const PODS = 8

const [steady, eight] = [() => CAPACITY, () => PODS]

export const WORKLOADS: readonly Workload[] = [
  { name: 'W1', what: 'steady: 80 at once, 8 pods', endMs: 400_000, capacityAt: steady, podsAt: eight },
  {
    name: 'W2',
    what: '80, then 30 from 200 s, and 80 again from 400 s',
    endMs: 600_000,
    capacityAt: (ms) => (ms >= 200_000 && ms < 400_000 ? 30 : CAPACITY),
    podsAt: eight,
  },
  {
    name: 'W3',
    what: '80 ± 30, a sine of 377 s',
    endMs: 400_000,
    capacityAt: (ms) => CAPACITY + 30 * Math.sin((2 * Math.PI * ms) / 377_000),
    podsAt: eight,
  },
  {
    name: 'W4',
    what: '80; 4 pods, then 16 from 200 s',
    endMs: 400_000,
    capacityAt: steady,
    podsAt: (ms) => (ms < 200_000 ? 4 : 16),
  },
]

export const VARIANTS: readonly Variant[] = [
  { name: 'free', retryAfterMs: undefined },
  { name: '5 s', retryAfterMs: 5_000 },
]
