// Chooses how much a proof tries. `npm run proof -- NAME --quick` and `npm run evening` choose the smaller size: the same code,
// in about a minute.
const IS_QUICK = process.env['PROOF_QUICK'] !== undefined

export function proofSize<Value>({ full, quick }: { readonly full: Value; readonly quick: Value }): Value {
  return IS_QUICK ? quick : full
}
