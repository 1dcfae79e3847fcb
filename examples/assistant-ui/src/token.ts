export async function token(): Promise<string> {
  const answer = await fetch('/api/token', { method: 'POST' })
  if (!answer.ok) throw new Error(await answer.text())
  return answer.text()
}

/** Makes a session with the default agent, and resolves to its id. */
export async function makeSession(): Promise<string> {
  const headers = { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' }
  const answer = await fetch('/v1/sessions', { method: 'POST', headers, body: '{}' })
  if (!answer.ok) throw new Error(await answer.text())
  return ((await answer.json()) as { session: string }).session
}
