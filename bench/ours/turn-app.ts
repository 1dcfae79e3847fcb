// The agent of `bench turn`, as an app of a pod.
import { agent } from 'fleetline'
import { speak } from '../support/speech.ts'

export const bot = agent('bot', speak)
