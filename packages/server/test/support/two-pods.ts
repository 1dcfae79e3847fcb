// A session on two pods in this process. Its turns run on the first pod, `here`. The second pod, `there`, has no agents.
import type { TestContext } from 'node:test'
import type { Ack } from '@fleetline/protocol'
import { agent, type AgentDefinition } from '../../src/agent/agent.ts'
import { valueOf } from '../../src/store/database.ts'
import { databaseFor } from './database.ts'
import { call, makeSession } from './http.ts'
import { podOn } from './pod.ts'
import { readEvents, readSocket, type Reader } from './reader.ts'
import { openDatabase } from './store.ts'

export async function twoPodsOn(t: TestContext, answer: AgentDefinition['answer']) {
  const url = await databaseFor(t)
  const here = await podOn(t, url, { podName: 'here' }, { agents: [agent('bot', answer)] })
  const there = await podOn(t, url, { podName: 'there' })
  const pods = { here: here.gateway, there: there.gateway }
  const { session } = await makeSession(pods.here, { agent: 'bot' })
  const database = await openDatabase(t, url)
  const follow = (pod: keyof typeof pods, headers = {}, query = '') =>
    readEvents(t, `${at(pod)}/events${query}`, headers)
  const overSocket = (pod: keyof typeof pods, position: object = { after: 0, epoch: 1 }) =>
    readSocket(t, pods[pod], { session, ...position })
  const at = (pod: keyof typeof pods) => `${pods[pod]}/v1/sessions/${session}`
  return {
    session,
    url,
    pods,
    at,
    run: async (text: string) => valueOf(await database.transaction((query) => query(text)), 'not run'),
    send: async (text: string) =>
      (await call('POST', `${at('here')}/messages`, { text })).body as unknown as Ack,
    follow,
    overSocket,
    /** Readers on both pods, over events and over sockets. */
    followAll: async () => [
      await follow('here'),
      await follow('there'),
      await overSocket('here'),
      await overSocket('there'),
    ],
    /** A reader that begins where this one is, on this pod. */
    resume: ({ face, lastId }: Pick<Reader, 'face' | 'lastId'>, pod: keyof typeof pods) =>
      face === 'events'
        ? follow(pod, { 'last-event-id': lastId()! })
        : overSocket(pod, { cursor: lastId()! }),
  }
}
