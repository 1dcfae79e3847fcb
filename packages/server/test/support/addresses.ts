// Different ways to write the address of this machine, and of hosts inside a network.

/** All of them mean this machine. */
export const LOOPBACK = wordsOf(`
  127.0.0.1 127.1 127.0.1 2130706433 017700000001 0177.0.0.1 0x7f.1 0x7f000001 0x7F.0.0.1 127.0.0.1. 127.000.000.001
  %31%32%37.0.0.1 １２７.0.0.1 127。0。0。1 127.0.0.2 127.255.255.254 0 0.0.0.0 localhost LOCALHOST localhost. a.localhost
  lo%63alhost [::1] [0:0:0:0:0:0:0:1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1]`)
export const INSIDE = wordsOf(`
  10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 169.254.169.254 169.254.170.2 0xa9fea9fe 2852039166 172.16.0.1
  172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1
  239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16 [fc00::1] [fd00:ec2::254] [fe80::1] [ff02::1]
  [64:ff9b::a9fe:a9fe] [64:ff9b:1::1] [100::1] [2001::1] [2001:db8::1] [2002:7f00:1::] [::ffff:a9fe:a9fe] [3fff::1]`)

function wordsOf(text: string): readonly string[] {
  return text.trim().split(/\s+/)
}
