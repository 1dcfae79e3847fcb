// Says in plain words what is wrong with a value of a request. Used for issues whose schema has no text of its own.
import type { z } from 'zod'

type Issue = z.core.$ZodRawIssue

const KINDS: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
}

export const MISSING = 'is missing'

/** Undefined: zod's own text is used. */
export function inPlainWords(issue: Issue): string | undefined {
  if (issue.input === undefined && issue.code !== 'unrecognized_keys') return MISSING
  switch (issue.code) {
    case 'invalid_type':
      return KINDS[issue.expected] && `must be ${KINDS[issue.expected]}`
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return tooSmall(issue.origin, issue.minimum)
    case 'too_big':
      return tooBig(issue.origin, issue.maximum)
    case 'unrecognized_keys':
      return `has unknown fields: ${issue.keys.join(', ')}`
    case 'invalid_format':
      return issue.format === 'datetime' ? 'must be a time, such as 2026-01-31T12:00:00Z' : undefined
    case 'custom':
    case 'invalid_element':
    case 'invalid_key':
    case 'invalid_union':
    case 'not_multiple_of':
      return undefined
  }
}

function tooSmall(origin: string, least: number | bigint): string {
  if (origin !== 'string' && origin !== 'array') return `must be at least ${least}`
  if (least === 1) return 'is empty'
  return origin === 'string' ? `is shorter than ${least} characters` : `has fewer than ${least} entries`
}

function tooBig(origin: string, most: number | bigint): string {
  if (origin === 'string') return `is longer than ${most} characters`
  return origin === 'array' ? `has more than ${most} entries` : `must be at most ${most}`
}
