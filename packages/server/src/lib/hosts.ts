// Parses hosts as an operator lists them: `agent.internal,10.1.0.0/16,::1`. A name matches exactly, whatever its address
// is. An address or a range matches every name that resolves to it.
import { BlockList, isIP } from 'node:net'

export type Hosts = {
  hasName(name: string): boolean
  hasAddress(address: string): boolean
  /** Whether a name that is not listed may resolve to a listed address. */
  readonly hasRanges: boolean
}

const NAME = /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/

/** Undefined if an entry is invalid. */
export function hostsOf(text: string): Hosts | undefined {
  const entries = text.split(',').map((entry) => entry.trim().toLowerCase())
  const [names, ranges] = [new Set<string>(), rangeList()]
  for (const entry of text.trim() === '' ? [] : entries) {
    if (ranges.add(entry)) continue
    // A URL turns a number into an address, so a name that looks like a number would never match.
    if (!NAME.test(entry) || URL.parse(`http://${entry}/`)?.hostname !== entry) return undefined
    names.add(entry)
  }
  return {
    hasName: (name) => names.has(name.toLowerCase()),
    hasAddress: ranges.has,
    get hasRanges() {
      return ranges.size() > 0
    },
  }
}

export type Addresses = { has(address: string): boolean }

/** Addresses and ranges of addresses, separated by commas. Undefined if an entry is invalid. */
export function addressesOf(text: string): Addresses | undefined {
  const list = rangeList()
  const entries = text.trim() === '' ? [] : text.split(',').map((entry) => entry.trim())
  return entries.every((entry) => list.add(entry)) ? list : undefined
}

/** A URL's host, without brackets and trailing dot. URLs write every number that means an IPv4 address as that address. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
}

/** A list of addresses, and of ranges such as `10.0.0.0/8`. */
export function rangeList(ranges: readonly string[] = []) {
  const list = new BlockList()
  const add = (text: string): boolean => {
    const [address = '', bits, ...rest] = text.split('/')
    const [family, most] = [familyOf(address), isIP(address) === 6 ? 128 : 32]
    if (isIP(address) === 0 || address.includes('%') || rest.length > 0) return false
    if (bits !== undefined && (!/^\d{1,3}$/.test(bits) || Number(bits) > most)) return false
    list.addSubnet(address, bits === undefined ? most : Number(bits), family)
    return true
  }
  for (const range of ranges) if (!add(range)) throw new TypeError(`${range} is no range of addresses`)
  return {
    /** Returns false if the text is neither an address nor a range. */
    add,
    has: (address: string): boolean => list.check(address.replace(/%.*/, ''), familyOf(address)),
    size: () => list.rules.length,
  }
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4'
}
