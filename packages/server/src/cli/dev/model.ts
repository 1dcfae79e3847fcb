// Finds the model of a dev fleet, if there is one: at the server that the environment names; at OpenAI, if the environment has
// a key; or on this machine, at the port of Ollama or LM Studio. All of them offer OpenAI's chat completions.
import { z } from 'zod'
import type { ModelWish } from '../../config.ts'
import { Rejected } from '../../errors.ts'

export type Model = {
  readonly name: string
  /** The URL of its server, without a slash at the end. */
  readonly url: string
  readonly key: string | undefined
}

const OPENAI = { url: 'https://api.openai.com/v1', name: 'gpt-5-mini' }
const HERE = ['http://localhost:11434/v1', 'http://localhost:1234/v1']
const PATIENCE_MS = 2_000

/** Throws if the environment names a server that offers no model to talk to. */
export async function findModel(
  { key, url, name }: ModelWish,
  here: readonly string[] = HERE,
): Promise<Model | undefined> {
  if (url !== undefined) {
    const chosen = name ?? (await firstAt(url, key))
    if (chosen !== undefined) return { url, key, name: chosen }
    const how = 'start it, set OPENAI_MODEL, or give --no-model'
    throw new Rejected('invalid', `The server of OPENAI_BASE_URL, ${url}, names no model: ${how}`)
  }
  if (key !== undefined) return { url: OPENAI.url, key, name: name ?? OPENAI.name }
  for (const server of here) {
    const first = await firstAt(server, undefined)
    if (first !== undefined) return { url: server, key: undefined, name: name ?? first }
  }
  return undefined
}

export function authorization(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { authorization: `Bearer ${key}` }
}

const listSchema = z.object({ data: z.array(z.object({ id: z.string() })) })

/** The first model that can talk: servers also list models that embed texts. */
async function firstAt(url: string, key: string | undefined): Promise<string | undefined> {
  try {
    const answer = await fetch(`${url}/models`, {
      headers: authorization(key),
      signal: AbortSignal.timeout(PATIENCE_MS),
    })
    const { data } = listSchema.parse(await answer.json())
    return data.map(({ id }) => id).find((id) => !/embed/i.test(id))
  } catch {
    return undefined // no server, or another kind
  }
}
