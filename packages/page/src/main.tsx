// Starts the page: `?theme=light` and `?theme=dark` overrule what the reader's system prefers, `?session=…` in which session
// its devices talk.
import { render } from 'preact'
import { App } from './app.tsx'
import { createDevice } from './device.ts'
import { createStage } from './scene.ts'

const asked = new URLSearchParams(location.search)
const session = asked.get('session') ?? 'demo'
const theme = asked.get('theme')
if (theme) document.documentElement.dataset['theme'] = theme
const now = () => Date.now()
const devices = [createDevice('laptop', session, now), createDevice('phone', session, now)] as const
render(<App stage={createStage()} devices={devices} />, document.body)
