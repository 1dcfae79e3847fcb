// Collects bytes that arrive in pieces. It copies each piece, since a piece may be a view into memory many times its size.

type Bytes = { add(piece: Uint8Array): void; all(): Uint8Array }

export function createBytes(): Bytes {
  let [bytes, length] = [new Uint8Array(1024), 0]
  return {
    add: (piece) => {
      if (length + piece.length > bytes.length) {
        const larger = new Uint8Array(2 * (length + piece.length))
        larger.set(bytes)
        bytes = larger
      }
      bytes.set(piece, length)
      length += piece.length
    },
    all: () => bytes.subarray(0, length),
  }
}
