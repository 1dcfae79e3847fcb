import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog, type LogFields } from '../../src/telemetry/log.ts'
import { createMetrics, METRICS } from '../../src/telemetry/metrics.ts'

function logTo(lines: string[]) {
  return createLog({ level: 'info', destination: { write: (line) => void lines.push(line) } })
}

test('S22: a log entry has its bound fields and only allowed ones, on one line', () => {
  const lines: string[] = []
  const log = logTo(lines).with({ version: '1.2.3' })
  log.info('listening', { port: 4400, authorization: 'Bearer canary' } as LogFields)
  log.warn('odd', { reason: 'two\r\nlines' })
  log.debug('not at this level')
  assert.equal(lines.length, 2)
  const { time, ...first } = JSON.parse(lines[0]!) as Record<string, unknown>
  assert.ok(!Number.isNaN(Date.parse(String(time))))
  assert.deepEqual(first, { level: 'info', version: '1.2.3', port: 4400, msg: 'listening' })
  assert.equal(lines[1]!.trimEnd().split(/[\r\n]/).length, 1)
})

test('S22: for a value that PostgreSQL rejected, the log has the code and not the value', () => {
  const lines: string[] = []
  const cause = Object.assign(new Error('invalid input: "canary"'), { code: '22P02', severity: 'ERROR' })
  logTo(lines).error('failed', { error: new Error('outer', { cause }) })
  assert.ok(!lines.join('').includes('canary'))
  const { error } = JSON.parse(lines[0]!) as { error: { message: string; cause: { code: string } } }
  assert.equal(error.message, 'outer')
  assert.equal(error.cause.code, '22P02')
})

test('every metric of the table is in the text, and a gauge is read when it is scraped', async () => {
  const metrics = createMetrics()
  metrics.count('transactions', { outcome: 'committed' }, 3)
  metrics.observe('transactionTime', { outcome: 'committed' }, 12)
  let open = 1
  metrics.gauge('poolConnections', () => [[{ state: 'open' }, open]])
  open = 2
  const text = await metrics.text()
  for (const { name } of Object.values(METRICS)) assert.match(text, new RegExp(`^# TYPE ${name} `, 'm'))
  assert.match(text, /^fleetline_transactions_total\{outcome="committed"\} 3$/m)
  assert.match(text, /^fleetline_transaction_seconds_bucket\{le="0.025",outcome="committed"\} 1$/m)
  assert.match(text, /^fleetline_pool_connections\{state="open"\} 2$/m)
  assert.match(text, /^process_cpu_seconds_total /m)
})
