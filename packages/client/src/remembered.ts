// A function that remembers what it has made.

/** Makes one value for each object, as long as somebody has the object. */
export function remembered<From extends object, To>(make: (from: From) => To): (from: From) => To {
  const made = new WeakMap<From, To>()
  return (from) => {
    const before = made.get(from) ?? make(from)
    made.set(from, before)
    return before
  }
}
