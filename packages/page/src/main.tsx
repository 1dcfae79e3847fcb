// Starts the page. `?theme=light` and `?theme=dark` override the preference of the reader's system. `?session=…` names the
// session in which the devices talk.
import { render } from 'preact'
import { App } from './app.tsx'
import { createDevice } from './device.ts'
import { createStage } from './scene.ts'
import { takePlace } from './tabs.ts'

const asked = new URLSearchParams(location.search)
const session = asked.get('session') ?? 'demo'
const theme = asked.get('theme')
if (theme) document.documentElement.dataset['theme'] = theme
const now = () => Date.now()
await takePlace(() => render(<Crowded />, document.body))
const devices = [createDevice('laptop', session, now), createDevice('phone', session, now)] as const
render(<App stage={createStage()} devices={devices} />, document.body)

function Crowded() {
  return (
    <p class="crowded" role="alert">
      A tab with this page is open already. A browser allows six connections to one address, and each tab
      needs up to five. Close the other tab: this one then starts by itself.
    </p>
  )
}
