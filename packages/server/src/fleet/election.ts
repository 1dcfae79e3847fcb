// Decides what a pod does about leading, from what it saw of the fleet. Pure. The decision is only advice: the compare-and-set
// on the term is the guarantee (P2).
//   the leader's row names              and                              this pod
//   me                                  I am live                        leads with that term
//   me                                  I am not live                    gives the term up
//   another pod                         I am not live                    follows
//   a healthy pod                       –                                follows
//   nobody, or a pod that is not live   it is my turn                    takes the next term
//   a live pod that is silent           it is my turn, and I may judge   takes the next term
//   otherwise                           –                                waits
// It is the turn of the oldest healthy pod. A healthy leader keeps its term even if an older pod, which was silent for a
// while, is healthy again: moving the term would gain nothing.

export type Member = {
  readonly id: number
  readonly state: 'live' | 'draining'
  /** Its last beat, as its row has it. */
  readonly beat: string
  /** How long the beat has not changed, by the clock of the pod that looks. */
  readonly silentMs: number
}

export type View = {
  readonly term: number
  readonly leader: number | null
  /** All pods that are not dead. */
  readonly members: readonly Member[]
}

/** What a pod knows about itself. */
type Self = { readonly id: number; readonly mayJudge: boolean }

type Decision = 'lead' | 'give-up' | 'follow' | 'take' | 'wait'

export function decide(view: View, self: Self, ttlMs: number): Decision {
  const isHealthy = (member: Member) => member.state === 'live' && member.silentMs <= ttlMs
  const live = view.members.filter(({ state }) => state === 'live')
  const [me, leader] = [self.id, view.leader].map((id) => live.find((member) => member.id === id))
  if (view.leader === self.id) return me ? 'lead' : 'give-up'
  if (!me || (leader && isHealthy(leader))) return 'follow'
  if (leader && !self.mayJudge) return 'wait'
  const oldest = Math.min(...view.members.filter(isHealthy).map(({ id }) => id))
  return oldest === self.id ? 'take' : 'wait'
}
