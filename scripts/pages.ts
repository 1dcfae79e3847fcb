// The form of a reference page: a title, a text and tables in Markdown.

export function page(title: string, intro: string, table: readonly (readonly string[])[]): string {
  return `${headOf(title)}${intro}\n\n${tableOf(table)}\n`
}

export function headOf(title: string): string {
  return `# ${title}\n\n<!-- Made by npm run docs: change the table in the sources, not this page. -->\n\n`
}

export function tableOf([head, ...rows]: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head!), line(head!.map(() => '---')), ...rows.map(line)].join('\n')
}
