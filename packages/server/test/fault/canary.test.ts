// S6 S22: a secret that somebody types, in the right place or in a wrong one, appears nowhere else: in no line of the log, metric,
// error or dump of the database, nor in the command line of a pod. A pod that logs everything gets canaries as its settings and in
// requests; commands get them as settings and arguments. Then everything that they print is searched.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { SignJWT } from 'jose'
import type { CommandOptions } from '../../src/cli/command.ts'
import { ISSUERS } from '../../src/cli/issuers.ts'
import { KEYS } from '../../src/cli/keys.ts'
import { atEnd } from '../support/cleanup.ts'
import { admin, databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { OF_CLUSTER } from '../support/pod.ts'
import { startPod } from '../support/pods.ts'
import { runCli } from '../support/program.ts'
import { dumpOf } from '../support/search.ts'
import { typing } from '../support/terminal.ts'

type Texts = Readonly<Record<string, string>>

test('S6 S22: no secret is found in logs, metrics, errors, the database, command lines or what commands print', async (t) => {
  const { url, settings, canaries, role } = await secretsFor(t)
  const keys = typing(KEYS, 'keys')
  const create = async (options: CommandOptions) => {
    const { out } = await keys({ flags: { databaseUrl: url }, json: true }, 'create', ['name'], options)
    return JSON.parse(out) as { readonly key: string; readonly id: string }
  }
  const scopes = 'sessions:read,sessions:write,agents:read,agents:write,tokens:mint,tasks:read,tasks:write'
  const own = await create({ tenant: 'dev', scopes })
  const operator = await create({ operator: true, scopes: 'operate,admin:read,admin:write' })
  const pod = await startPod(t, url, { ...settings, FLEETLINE_DEMO_AGENT: 'yes' })
  const ask = askerOf({ ...pod, own: own.key, operator: operator.key })

  assert.equal((await ask.own('POST', '/v1/agents', agentWith(canaries['agent secret']!))).status, 201)
  const { body: made } = await ask.own('POST', '/v1/sessions', { agent: 'own', members: ['ada'] })
  const at = `/v1/sessions/${String(made['session'])}`
  const { body: sent } = await ask.own('POST', `${at}/messages`, { text: 'hello' })
  const { body: minted } = await ask.own('POST', '/v1/tokens', { user: 'ada' })
  const token = String(minted['token'])
  assert.equal((await ask.with(token, 'GET', at)).status, 200)
  const typed = { ...canaries, key: own.key, 'operator key': operator.key, token }
  const answers: string[] = []
  const leaky = requestsWith(Object.values(typed), at)
  for (const { port, method, path, body, shown } of leaky) {
    const { status, text } = await ask.raw(port, { method, path, body, shown })
    if (status >= 400) answers.push(text)
  }
  assert.ok(answers.length > leaky.length * 0.9, `${answers.length} of ${leaky.length} are errors`)
  const failing = async () => {
    const { body } = await ask.own('GET', `/v1/turns/${String(sent['turn'])}`)
    assert.ok(body['waitsFor'] ?? body['error'], JSON.stringify(body))
  }
  await eventually(failing, { what: 'the agent to fail', details: pod.program.output })
  const commands = await outputsOf(t, url, typed)
  const activity = await admin('select usename, application_name, query from pg_stat_activity')
  const places: Texts = {
    ...commands,
    log: pod.program.output(),
    metrics: (await ask.raw('admin', { method: 'GET', path: '/metrics', shown: operator.key })).text,
    errors: answers.join('\n'),
    readiness: (await ask.raw('admin', { method: 'GET', path: '/readyz' })).text,
    'command line': readFileSync(`/proc/${pod.program.pid}/cmdline`, 'utf8'), // its title, too
    activity: JSON.stringify(activity.rows),
    dump: dumpOf(url),
  }
  const secrets = { ...typed, ...partsOf(typed) }
  assert.deepEqual(leaksIn(places, secrets), [])

  // The search has something to search in.
  for (const [place, part] of [
    ['log', '"msg":"request"'],
    ['log', '"status":401'],
    ['metrics', 'fleetline_logins'],
    ['activity', role],
    ['command line', 'start'],
    ['dump', 'COPY fleetline.api_keys'],
    ['dump', operator.id],
    ['config print', 'hidden'],
  ] as const)
    assert.ok(places[place]!.includes(part), `${place}: ${places[place]!.slice(0, 500)}`)
})

test('mutant: a canary is found, also inside of base64 and percent-encoded', () => {
  const [canary, other] = ['fl_live_abc/+=?_ canary', 'another one']
  for (const line of [
    `{"msg":"${canary}"}`,
    encodeURIComponent(canary),
    Buffer.from(`user:${canary}@host`).toString('base64'),
    Buffer.from(`user2:${canary}@host`).toString('base64url'),
    Buffer.from(`user22:${canary}`).toString('base64'),
    Buffer.from(canary).toString('hex'),
    new URLSearchParams({ q: canary }).toString(),
  ])
    assert.match(
      leaksIn({ log: `first\n${line}\nlast`, metrics: 'none' }, { canary, other }).join(),
      /^canary is in log: .*SECRET[^,]*$/,
    )
})

/** The names of the secrets that are found, with the lines in which they are. */
function leaksIn(places: Texts, secrets: Texts): string[] {
  return Object.entries(places).flatMap(([place, text]) =>
    Object.entries(secrets).flatMap(([name, secret]) => {
      const found = formsOf(secret).find((form) => text.includes(form))
      const line = found === undefined ? undefined : text.split('\n').find((one) => one.includes(found))
      return line === undefined ? [] : [`${name} is in ${place}: ${line.replaceAll(found!, 'SECRET')}`]
    }),
  )
}

function formsOf(secret: string): string[] {
  // In base64 three bytes become four letters, so what a text becomes depends on where it stands.
  const inside = [0, 1, 2].map((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)])
    const whole = bytes.subarray(0, bytes.length - (bytes.length % 3)).toString('base64')
    return whole.slice(before === 0 ? 0 : 4)
  })
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    new URLSearchParams({ q: secret }).toString().slice(2),
    Buffer.from(secret).toString('hex'),
    ...inside,
    ...inside.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ]
}

/** The secret part of a key, the signature of a token, and the bytes of what is base64: they are no less secret alone. */
function partsOf(typed: Texts): Texts {
  const partOf = (text: string): string => {
    if (text.startsWith('fl_')) return text.split('_').at(-1)!
    if (text.includes('.')) return text.split('.').at(-1)!
    return Buffer.from(text.replace('whsec_', ''), 'base64').toString('hex')
  }
  return Object.fromEntries(Object.entries(typed).map(([name, text]) => [`part of ${name}`, partOf(text)]))
}

/** Settings and values that nobody else knows. */
async function secretsFor(t: TestContext) {
  const role = `canary_${randomBytes(4).toString('hex')}`
  const password = random()
  await admin(`create role ${role} superuser login password '${password}'`)
  atEnd(t, () => admin(`drop role ${role}`))
  const url = (await databaseFor(t)).replace('//postgres@', `//${role}:${password}@`)
  const [secretsKey, ring] = [randomBytes(32).toString('base64'), randomBytes(32)]
  const tokenKey = ring.toString('base64')
  const claims = {
    iss: 'fleetline',
    aud: 'fleetline/0',
    sub: 'ada',
    iat: 1,
    exp: 2,
    ten: 'dev',
    ses: 'member',
    scp: [],
  }
  const canaries: Texts = {
    password,
    secretsKey,
    tokenKey,
    'agent secret': `whsec_${randomBytes(24).toString('base64')}`,
    'unknown key': `fl_live_${'0'.repeat(12)}_${randomBytes(40).toString('hex').slice(0, 43)}`,
    'broken key': `fl_live_${randomBytes(20).toString('hex')}`,
    'expired token': await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'one' }).sign(ring),
    'token that is none': `${random()}.${random()}.${random()}`,
  }
  const settings = {
    FLEETLINE_SECRETS_KEY: secretsKey,
    FLEETLINE_TOKEN_KEYS: `one:${tokenKey}`,
    FLEETLINE_ALLOW_INSECURE: OF_CLUSTER,
    FLEETLINE_AGENT_HOSTS: '127.0.0.1',
    FLEETLINE_LOG_LEVEL: 'debug',
  }
  return { url, role, canaries, settings }
}

function random(): string {
  return randomBytes(18).toString('hex')
}

function agentWith(secret: unknown) {
  return { name: 'own', url: 'http://127.0.0.1:1/', secret }
}

type Sent = {
  readonly method: string
  readonly path: string
  readonly body?: string | undefined
  readonly shown?: string | undefined
}
type Port = 'gateway' | 'admin'

function askerOf(pod: {
  readonly gateway: string
  readonly admin: string
  readonly own: string
  readonly operator: string
}) {
  const raw = async (port: Port, { method, path, body, shown }: Sent) => {
    const headers: Record<string, string> = {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(shown === undefined ? {} : { authorization: shown.includes(' ') ? shown : `Bearer ${shown}` }),
    }
    const key = port === 'gateway' ? pod.own : pod.operator
    const authorization =
      headers['authorization'] === 'Bearer valid' ? { authorization: `Bearer ${key}` } : {}
    const answer = await fetch(`${pod[port]}${path}`, {
      method,
      headers: { ...headers, ...authorization },
      ...(body !== undefined && { body }),
    })
    return { status: answer.status, text: await answer.text() }
  }
  const withKey = async (shown: string, method: string, path: string, body?: object) => {
    const { status, text } = await raw('gateway', {
      method,
      path,
      shown,
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status, body: JSON.parse(text) as Record<string, unknown> }
  }
  return {
    raw,
    with: withKey,
    own: (method: string, path: string, body?: object) => withKey(pod.own, method, path, body),
  }
}

/** Requests with a secret in every place that a person or a program may mistake for the right one. */
function requestsWith(secrets: readonly string[], session: string): (Sent & { readonly port: Port })[] {
  return secrets.flatMap((secret) => {
    const encoded = encodeURIComponent(secret)
    const both = (['gateway', 'admin'] as const).flatMap((port) => [
      { port, method: 'GET', path: `/v1/${encoded}` },
      { port, method: 'GET', path: `/v1/tasks?key=${encoded}&token=${encoded}` },
      { port, method: 'GET', path: '/v1/sessions/none', shown: `Basic ${secret}` },
      { port, method: 'GET', path: '/v1/nothing', shown: `Bearer ${secret} ${secret}` },
      { port, method: 'GET', path: port === 'admin' ? '/v1/agents' : '/v1/keys', shown: secret },
    ])
    const wrong = [
      agentWith({ secret }),
      agentWith([secret]),
      { ...agentWith(secret), name: 5 },
      { ...agentWith(secret), url: `https://user:${secret}@agent.test/` },
      { ...agentWith('short'), secret: `${secret} ` },
    ]
    const bodies = [
      ...wrong.map((body) => ['/v1/agents', body] as const),
      ['/v1/tokens', { user: { secret } }],
    ] as const
    return [
      ...both,
      { port: 'gateway', method: 'GET', path: `${session}x`, shown: `${secret.slice(0, -1)}#` },
      ...['sessions', 'turns', 'tasks', 'agents'].map((name) => ({
        port: 'gateway' as const,
        method: 'GET',
        path: `/v1/${name}/${encoded}`,
        shown: 'valid',
      })),
      { port: 'gateway', method: 'GET', path: `/v1/sessions?before=${encoded}`, shown: 'valid' },
      { port: 'gateway', method: 'GET', path: `/v1/tasks?before=${encoded}`, shown: 'valid' },
      { port: 'gateway', method: 'POST', path: '/v1/tokens', body: `{"user":"${secret}`, shown: 'valid' },
      {
        port: 'gateway',
        method: 'POST',
        path: `${session}/messages`,
        body: `{"text":["${secret}"]}`,
        shown: 'valid',
      },
      ...bodies.map(([path, body]) => ({
        port: 'gateway' as const,
        method: 'POST',
        path,
        body: JSON.stringify(body),
        shown: 'valid',
      })),
      { port: 'admin', method: 'POST', path: `/v1/keys/${encoded}/revoke`, shown: 'valid' },
      { port: 'admin', method: 'DELETE', path: `/v1/issuers/${encoded}`, shown: 'valid' },
      ...['issuer', 'jwksUrl'].map((name) => ({
        port: 'admin' as const,
        method: 'POST',
        path: '/v1/issuers',
        shown: 'valid',
        body: JSON.stringify({
          name: 'own',
          tenant: 'dev',
          issuer: 'https://login.test/',
          jwksUrl: 'https://login.test/keys',
          audience: 'chat',
          [name]: `https://user:${encoded}@login.test/`,
        }),
      })),
    ]
  })
}

/** What commands print that get secrets as settings, in files, and as arguments by mistake. */
async function outputsOf(t: TestContext, url: string, typed: Texts): Promise<Texts> {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-canary-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const fileOf = (name: string) => {
    const path = join(folder, name.replaceAll(' ', '-'))
    writeFileSync(path, `${typed[name]!}\n`)
    return path
  }
  const env = { DATABASE_URL: url }
  const nowhere = url.replace(/@[^/]*/, '@127.0.0.1:1')
  const runs: Readonly<Record<string, readonly [words: readonly string[], env: Texts]>> = {
    'config print': [
      ['config', 'print', '--api-key-file', fileOf('key'), '--secrets-key-file', fileOf('secretsKey')],
      { ...env, FLEETLINE_TOKEN_KEYS: `one:${typed['tokenKey']!}` },
    ],
    'config print of a wrong key': [['config', 'print', '--api-key-file', fileOf('broken key')], env],
    'start with a wrong key': [['start'], { ...env, FLEETLINE_TOKEN_KEYS: typed['tokenKey']! }],
    'keys ls without a database': [['keys', 'ls'], { DATABASE_URL: nowhere }],
  }
  const ended = Object.entries(runs).map(async ([name, [words, settings]]) => {
    const program = runCli(t, words, settings)
    const isOver = () => assert.ok(program.hasEnded())
    await eventually(isOver, { what: name, patienceMs: 120_000, details: program.output })
    await program.ended
    return [name, program.output()] as const
  })
  const [keys, issuers] = [typing(KEYS, 'keys'), typing(ISSUERS, 'issuers')]
  const flags = { databaseUrl: url }
  const claims = { tenant: 'dev', issuer: 'https://login.test', audience: 'chat' }
  const withPassword = `https://user:${typed['password']!}@login.test/`
  const wrongUrl = { flags: { databaseUrl: url.replace('postgres:', 'postgre:') } }
  const printed = {
    'keys revoke': await keys({ flags }, 'revoke', [typed['broken key']!]),
    'keys ls with a broken URL': await keys(wrongUrl, 'ls'),
    'keys ls with a wrong key': await keys({ flags: { ...flags, apiKey: typed['broken key']! } }, 'ls'),
    'issuers add': await issuers({ flags }, 'add', ['own'], { ...claims, jwksUrl: withPassword }),
  }
  const said = Object.entries(printed).map(([name, { out, err }]) => [name, out + err] as const)
  const outputs = Object.fromEntries([...said, ...(await Promise.all(ended))])
  for (const [name, text] of Object.entries(outputs)) assert.notEqual(text, '', name)
  return outputs
}
