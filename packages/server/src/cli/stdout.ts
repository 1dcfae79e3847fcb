// stdout of commands. If the disk is full, the command ends with a message and exit code 1, because a script may keep what was printed, such
// as an export, as complete. If the reader has closed the pipe, as `head` does, the command ends without a message, but not with exit code 0:
// its work may be unfinished. A pod does not end: it goes on without its log. If stderr cannot be written, nothing ends.
import { once } from 'node:events'
import { fstatSync, writeSync } from 'node:fs'
import { Abort } from '../errors.ts'
import { EXIT, type Sink } from './output.ts'

/** `fail`: prints the error, and returns its exit code. */
export function openStdout(fail: (error: Error) => number): Sink {
  const end = (fault: NodeJS.ErrnoException) =>
    process.exit(fault.code === 'EPIPE' ? EXIT.pipeClosed : fail(cutOff(fault)))
  process.stdout.on('error', end)
  const { fd } = process.stdout
  const stats = fstatSync(fd)
  if (process.stdout.isTTY || !(stats.isFile() || stats.isCharacterDevice())) return ofStream(process.stdout)
  return {
    write: (text) => {
      try {
        writeAll(fd, Buffer.from(text))
      } catch (error) {
        end(error as NodeJS.ErrnoException)
      }
    },
  }
}

/** Keeps Node.js from ending a command with exit code 1 because a message for people could not be written. */
export function outliveStderr(): void {
  process.stderr.on('error', () => undefined)
}

/** For a program that goes on if its stdout fails. */
export function outliveStdout(): void {
  process.stdout.removeAllListeners('error').on('error', () => undefined)
}

function ofStream(stream: NodeJS.WriteStream): Sink {
  return {
    isTTY: stream.isTTY,
    write: (text) => stream.write(text),
    drained: async () => {
      if (stream.writableNeedDrain) await once(stream, 'drain')
    },
  }
}

/** A disk with little space takes a part of the bytes without an error, and Node.js's own stream ignores that. */
function writeAll(fd: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at)
}

function cutOff(cause: NodeJS.ErrnoException): Abort {
  const why = cause.message.replace(/, write$/, '')
  return new Abort(
    'internal',
    `The output is incomplete: stdout cannot be written (${why}). Make space, or write to another place. If the command only reads, run it again; if not, look first at what it has done`,
    { cause },
  )
}
