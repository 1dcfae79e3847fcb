// One connection that sends JSON, one request under way at a time. With Node's own clients, a request costs the bench as much as
// the pod, and both share a machine. So this client only writes a request and looks for the end of its answer.
import { once } from 'node:events'
import { connect } from 'node:net'

type HttpWriter = {
  post(path: string, body: string): Promise<Record<string, unknown>>
  close(): void
}

const HEAD_END = '\r\n\r\n'

export async function openHttpWriter(origin: string, key: string): Promise<HttpWriter> {
  const { hostname, port, host } = new URL(origin)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  let received = ''
  let waiting: PromiseWithResolvers<Record<string, unknown>> | undefined
  const fail = (error: Error) => waiting?.reject(error)
  socket.on('error', fail)
  socket.on('close', () => fail(new Error('The pod closed the connection')))
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text
    const end = received.indexOf(HEAD_END) + HEAD_END.length
    const length = /^content-length: (\d+)/im.exec(received)?.[1]
    if (end < HEAD_END.length || received.length < end + Number(length)) return
    const [status, body] = [received.slice(9, 12), received.slice(end)]
    received = ''
    if (status === '200') waiting?.resolve(JSON.parse(body) as Record<string, unknown>)
    else fail(new Error(`Answered ${status}: ${body}`))
  })
  return {
    post: (path, body) => {
      waiting = Promise.withResolvers()
      const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\nauthorization: Bearer ${key}`
      socket.write(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}${HEAD_END}${body}`)
      return waiting.promise
    },
    close: () => socket.destroy(),
  }
}
