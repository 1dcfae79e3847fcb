// The content of a message, part by part. A part of an unknown kind is shown as data.
import type { Message } from '@fleetline/client'
import type { ComponentChild } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { Growing } from './code.ts'
import { markdown } from './markdown.ts'

type Part = Message['parts'][number]

export function Parts({ parts, isOpen }: { parts: readonly Part[]; isOpen: boolean }) {
  return (
    <>
      {parts.map((part, index) => (
        <PartView key={index} part={part} isOpen={isOpen && index === parts.length - 1} />
      ))}
    </>
  )
}

type PartProps = { readonly part: Part; readonly isOpen: boolean }

function PartView({ part, isOpen }: PartProps) {
  const { type } = part
  if (type === 'text') return <Text text={textOf(part['text'])} isOpen={isOpen} />
  if (type === 'reasoning') return <Reasoning text={textOf(part['text'])} isOpen={isOpen} />
  if (type === 'dynamic-tool' || type.startsWith('tool-')) return <Tool part={part} />
  if (type === 'step-start') return null
  return <Data name={type} value={part} />
}

function Text({ text, isOpen }: { text: string; isOpen: boolean }) {
  const drawn = useMemo(() => markdown(text), [text])
  return (
    <div class={isOpen ? 'text open' : 'text'}>
      <Growing.Provider value={isOpen}>{drawn}</Growing.Provider>
    </div>
  )
}

function Reasoning({ text, isOpen }: { text: string; isOpen: boolean }) {
  const [wasOpen] = useState(isOpen) // a reader who saw it arrive keeps seeing it
  return (
    <details class="reasoning" open={wasOpen}>
      <summary>{isOpen ? 'Thinks' : 'Thought'}</summary>
      <div>{text}</div>
    </details>
  )
}

const TOOL_STATES: Readonly<Record<string, string>> = {
  'input-streaming': 'is being called',
  'input-available': 'runs',
  'output-available': 'answered',
  'output-error': 'failed',
}

function Tool({ part }: { part: Part }) {
  const name = part.type === 'dynamic-tool' ? textOf(part['toolName']) : part.type.slice('tool-'.length)
  const state = textOf(part['state'])
  return (
    <details class={`tool ${state}`}>
      <summary>
        <code>{name}</code> {TOOL_STATES[state] ?? state}
      </summary>
      {[
        ['input', part['input']],
        ['output', part['output']],
        ['error', part['errorText']],
      ].map(
        ([label, value]) =>
          value !== undefined && <Value key={label} label={label as string} value={value} />,
      )}
    </details>
  )
}

function Value({ label, value }: { label: string; value: unknown }): ComponentChild {
  return (
    <>
      <h6>{label}</h6>
      <pre>{typeof value === 'string' ? value : JSON.stringify(value, null, 2)}</pre>
    </>
  )
}

function Data({ name, value }: { name: string; value: unknown }) {
  return (
    <details class="tool">
      <summary>
        <code>{name}</code>
      </summary>
      <pre>{JSON.stringify(value, null, 2)}</pre>
    </details>
  )
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
