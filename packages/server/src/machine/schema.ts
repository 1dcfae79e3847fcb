// The schemas that users validate values with: zod, valibot, arktype and others (standardschema.dev).
import { Rejected } from '../errors.ts'

export type Schema<Raw, Value> = {
  readonly '~standard': {
    readonly validate: (value: unknown) => Checked<Value> | Promise<Checked<Value>>
    readonly types?: { readonly input: Raw; readonly output: Value } | undefined
  }
}
type Checked<Value> =
  | { readonly value: Value; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] }
type Issue = {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** Returns what the schema makes of the value. Rejects a value that does not fit, and says where. */
export async function parse<Value>(
  name: string,
  schema: Schema<unknown, Value>,
  value: unknown,
): Promise<Value> {
  const checked = await schema['~standard'].validate(value)
  if (checked.issues === undefined) return checked.value
  const [first] = checked.issues
  const path = (first?.path ?? []).map((step) => String(typeof step === 'object' ? step.key : step))
  throw new Rejected('invalid', `${[name, ...path].join('.')}: ${first?.message ?? 'does not fit'}`)
}
