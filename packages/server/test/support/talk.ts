// A session with an agent, used over HTTP as an application does.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Ack, Item, Page, Session, Turn } from '@fleetline/protocol'
import { valueOf } from '../../src/store/database.ts'
import { eventually } from './eventually.ts'
import { call, makeSession } from './http.ts'
import { openDatabase } from './store.ts'

type Place = { readonly url: string; readonly gateway: string; readonly agent: string }

/** The chunks with which an agent in code says `text`. */
export async function* saying(text: string) {
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  yield { type: 'text-delta', id: '1', delta: text }
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
}

export async function talkOn(t: TestContext, { url, gateway, agent }: Place) {
  const { session } = await makeSession(gateway, { agent, title: 'A talk' })
  const database = await openDatabase(t, url)
  const run = async (text: string) => valueOf(await database.transaction((query) => query(text)), 'not run')
  const turn = async (id: string) => (await call('GET', `${gateway}/v1/turns/${id}`)).body as unknown as Turn
  return {
    run,
    gateway,
    session,
    turn,
    send: async (text: string, more = {}) =>
      (await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text, ...more }))
        .body as unknown as Ack,
    get: async () => (await call('GET', `${gateway}/v1/sessions/${session}`)).body as unknown as Session,
    items: async (): Promise<readonly Item[]> => {
      const page = await call('GET', `${gateway}/v1/sessions/${session}/messages`)
      return (page.body as unknown as Page).items
    },
    /** Resolves to the turn when it has ended. Tasks that wait for their next attempt become due at once. */
    ended: (id: string, patience: { readonly patienceMs?: number } = {}) =>
      eventually(
        async () => {
          await run(`update fleetline.tasks set run_at = now() where state = 'waiting'`)
          const found = await turn(id)
          assert.ok(found.endedAt !== null, JSON.stringify(found))
          return found
        },
        { what: `the end of ${id}`, ...patience },
      ),
  }
}
