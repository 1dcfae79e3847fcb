// The templates: a folder in `templates` for each.
export const TEMPLATES = {
  chat: {
    summary: 'a chat page with the AI SDK, and its agent',
    steps: ['npm run dev     # the fleet and the agent', 'npm run page    # in a second terminal: the page'],
  },
  queue: {
    summary: 'tasks that any program may enqueue, also in SQL',
    steps: ['npm run dev     # then, in a second terminal, what README.md shows'],
  },
  machine: {
    summary: 'work of several steps that resumes where it stopped',
    steps: ['npm run dev     # then, in a second terminal, what README.md shows'],
  },
} as const satisfies Record<string, { readonly summary: string; readonly steps: readonly string[] }>

export type TemplateName = keyof typeof TEMPLATES

export const templateNames = Object.keys(TEMPLATES) as TemplateName[]

export function isTemplate(name: string): name is TemplateName {
  return Object.hasOwn(TEMPLATES, name)
}
