#!/usr/bin/env node
// Checks the version of Node.js before it loads code that an older one cannot read.
const LEAST = [24, 12]
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < LEAST[0] || (major === LEAST[0] && minor < LEAST[1])) {
  console.error(
    `create-fleetline: needs Node.js ${LEAST.join('.')} or newer, this is ${process.version}: install a newer one, for example from nodejs.org`,
  )
  process.exit(2)
}
const { main } = await import('../dist/main.js')
process.exitCode = await main(process.argv.slice(2))
