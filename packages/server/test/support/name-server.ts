// A name server on loopback, over UDP. It records every question, and the test controls every answer.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'

/** Returns the IPv4 and IPv6 addresses of a name, or the name that it is an alias for. Undefined: the server does not answer.
 *  `nth` counts the questions for this name and type, from 0. */
type Zone = (name: string, nth: number) => readonly string[] | undefined

const [A, CNAME] = [1, 5]

export async function nameServer(t: TestContext, zone: Zone) {
  const questions: string[] = []
  const answers = new Map<string, Buffer>() // a repeated question gets the same answer
  const socket = createSocket('udp4')
  socket.on('message', (query, from) => {
    const repeat = `${from.port} ${query.readUInt16BE(0)}`
    const known = answers.get(repeat)
    if (known) return socket.send(known, from.port, from.address)
    const { name, type, end } = questionIn(query)
    const question = `${type === A ? 'A' : 'AAAA'} ${name}`
    const addresses = zone(name, questions.filter((one) => one === question).length)
    questions.push(question)
    if (!addresses) return
    const wanted = addresses.filter((address) => [type === A ? 4 : 6, 0].includes(isIP(address)))
    const answer = answerOf(query.subarray(0, end), type, wanted)
    answers.set(repeat, answer)
    socket.send(answer, from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  atEnd(t, () => socket.close())
  const { port } = socket.address()
  return { questions, address: `127.0.0.1:${port}`, waiting: () => socketsTo(port) }
}

/** How many UDP sockets of this machine are connected to a port. */
function socketsTo(port: number): number {
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = readFileSync('/proc/net/udp', 'utf8').split('\n')
  return lines.filter((line) => line.trim().split(/\s+/)[2]?.endsWith(end)).length
}

function questionIn(query: Buffer) {
  const labels: string[] = []
  let at = 12
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 }
}

function answerOf(question: Buffer, type: number, addresses: readonly string[]): Buffer {
  const header = Buffer.from(question)
  header.writeUInt16BE(0x81_80, 2) // an answer without an error
  header.writeUInt16BE(addresses.length, 6)
  header.writeUInt32BE(0, 8)
  const records = addresses.map((address) => {
    const data = bytesOf(address)
    const kind = isIP(address) === 0 ? CNAME : type
    const record = Buffer.from([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, data.length]) // valid for 0 seconds
    return Buffer.concat([record, data])
  })
  return Buffer.concat([header, ...records])
}

function bytesOf(address: string): Buffer {
  if (isIP(address) === 0)
    return Buffer.concat(
      [...address.split('.'), ''].map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
    )
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number))
  const [head = '', tail] = address.split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  const [front, back] = [groups(head), groups(tail ?? '')]
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0')
  const all = [...front, ...(tail === undefined ? [] : zeros), ...back]
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex')
}
