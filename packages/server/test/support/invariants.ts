// Compares the codes that sources and documents use with docs/invariants.md, as a function over texts, so that mutants can be
// shown to break it.

const CODE = /\b[DELPQRST]\d{1,2}\b/g
const ROW = /^\| ([A-Z]\d+) \| (.+) \| (.*) \|$/gm
const TITLE = /^\s*test\(\s*(['`])(.*?)\1/gm

type Texts = ReadonlyMap<string, string>

/** Every broken rule, one sentence each. `tests` are those of `texts` that hold tests, by the names that the page gives them. */
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
