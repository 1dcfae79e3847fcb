// npm create fleetline: asks what is missing, if a person can answer, and makes an app from a template.
import { basename, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { parseArgs } from 'node:util'
import { copyTemplate, Refusal } from './copy-template.ts'
import { isTemplate, TEMPLATES, templateNames, type TemplateName } from './templates.ts'

const USAGE = `Usage: npm create fleetline [FOLDER] -- [--template ${templateNames.join('|')}]

Makes an app that runs on Fleetline, in a new folder (default: fleetline-app).

${templateNames.map((name) => `  ${name.padEnd(9)}${TEMPLATES[name].summary}`).join('\n')}

  --template NAME   the template; without it, you are asked on a terminal, and get chat otherwise
  --help            this text`
const [DEFAULT_FOLDER, DEFAULT_TEMPLATE] = ['fleetline-app', 'chat'] as const
const EXIT = { done: 0, failed: 1, usage: 2 } as const

/** Returns the exit code. */
export async function main(words: readonly string[]): Promise<number> {
  try {
    const wish = wishOf(words)
    if (wish === undefined) {
      console.log(USAGE)
      return EXIT.done
    }
    const { folder, template } = await completed(wish)
    const path = resolve(folder)
    copyTemplate(template, path)
    console.log(nextSteps(template, path))
    return EXIT.done
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    console.error(`create-fleetline: ${error.message}`)
    return error.isUsage ? EXIT.usage : EXIT.failed
  }
}

type Wish = { readonly folder: string | undefined; readonly template: TemplateName | undefined }

/** Undefined: the user wants help. */
function wishOf(words: readonly string[]): Wish | undefined {
  const { values, positionals } = parsed(words)
  if (values.help) return undefined
  if (positionals.length > 1)
    throw new Refusal(`there is one FOLDER, not ${positionals.length}: ${positionals.join(' ')}`, true)
  const { template } = values
  if (template !== undefined && !isTemplate(template))
    throw new Refusal(`there is no template ${template}: choose ${templateNames.join(', ')}`, true)
  return { folder: positionals[0], template }
}

function parsed(words: readonly string[]) {
  try {
    return parseArgs({
      args: [...words],
      allowPositionals: true,
      options: { template: { type: 'string', short: 't' }, help: { type: 'boolean', short: 'h' } },
    })
  } catch (error) {
    throw new Refusal(`${(error as Error).message}. See --help`, true)
  }
}

/** Without a terminal nobody can be asked. */
async function completed({ folder, template }: Wish): Promise<{ folder: string; template: TemplateName }> {
  const isAsked = process.stdin.isTTY && process.stdout.isTTY
  if (!isAsked || (folder !== undefined && template !== undefined))
    return { folder: folder ?? DEFAULT_FOLDER, template: template ?? DEFAULT_TEMPLATE }
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    const named =
      folder ?? ((await terminal.question(`Folder (${DEFAULT_FOLDER}): `)).trim() || DEFAULT_FOLDER)
    return { folder: named, template: template ?? (await askTemplate(terminal)) }
  } finally {
    terminal.close()
  }
}

async function askTemplate(terminal: { question: (text: string) => Promise<string> }): Promise<TemplateName> {
  for (const [index, name] of templateNames.entries())
    console.log(`  ${index + 1}  ${name.padEnd(9)}${TEMPLATES[name].summary}`)
  for (;;) {
    const said = (await terminal.question('Template (1): ')).trim() || '1'
    const name = templateNames[Number(said) - 1] ?? said
    if (isTemplate(name)) return name
  }
}

function nextSteps(template: TemplateName, path: string): string {
  const folder = relative('', path) || '.'
  const steps = [...(folder === '.' ? [] : [`cd ${folder}`]), 'npm install', ...TEMPLATES[template].steps]
  return [
    `Made ${basename(path)} from the template ${template}. Next:`,
    '',
    ...steps.map((step) => `  ${step}`),
  ].join('\n')
}
