// Compares the codes in sources and documents with docs/invariants.md. It is a function over texts, so that a test can show that
// mutants break the rules.

const CODE = /\b[DEILPQRST]\d{1,2}\b/g
const ROW = /^\| ([A-Z]\d+) \| (.+) \| (.*) \|$/gm
const TITLE = /^\s*test\(\s*(['`])(.*?)\1/gm

type Texts = ReadonlyMap<string, string>

/** Returns one sentence for each broken rule. `tests` are the test files among `texts`, by their names on the page. */
export function brokenCodes(page: string, texts: Texts, tests: Texts): string[] {
  const rows = Array.from(page.matchAll(ROW), ([, code, , files]) => ({
    code: code!,
    files: namesIn(files!),
  }))
  const defined = new Set(rows.map(({ code }) => code))
  const carriers = new Map([...tests].map(([name, text]) => [name, codesInTitles(text)]))
  return [
    ...[...texts].flatMap(([path, text]) =>
      [...new Set(text.match(CODE))]
        .filter((code) => !defined.has(code))
        .map((code) => `${path}: ${code} is not defined`),
    ),
    ...rows.filter(({ files }) => files.length === 0).map(({ code }) => `${code} names no test`),
    ...rows.flatMap(({ code, files }) =>
      files
        .filter((file) => !carriers.get(file)?.has(code))
        .map((file) => `${code}: no title in ${file} carries it`),
    ),
  ]
}

function namesIn(cell: string): string[] {
  return Array.from(cell.matchAll(/`([^`]+)`/g), ([, name]) => name!)
}

function codesInTitles(text: string): ReadonlySet<string> {
  return new Set(Array.from(text.matchAll(TITLE), ([, , title]) => title!.match(CODE) ?? []).flat())
}
