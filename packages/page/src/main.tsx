// Starts the page: `?theme=light` and `?theme=dark` overrule what the reader's system prefers.
import { render } from 'preact'
import { App } from './app.tsx'
import { createDevice } from './device.ts'
import { createStage } from './scene.ts'

const SESSION = 'demo' // every dev fleet has it
const theme = new URLSearchParams(location.search).get('theme')
if (theme) document.documentElement.dataset['theme'] = theme
const now = () => Date.now()
const devices = [createDevice('laptop', SESSION, now), createDevice('phone', SESSION, now)] as const
render(<App stage={createStage()} devices={devices} />, document.body)
