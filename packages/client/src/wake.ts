// Detects that a device is back: its network returns, or somebody looks at the page again. Outside a page it never fires.

type Target = Pick<EventTarget, 'addEventListener' | 'removeEventListener'>
type Page = Partial<Target> & { readonly document?: Target & { readonly visibilityState: string } }

/** Returns a function that ends it. */
export function onWake(listener: () => void, where: object = globalThis): () => void {
  const page = where as Page
  const { document } = page
  const onVisible = () => document?.visibilityState === 'visible' && listener()
  for (const name of ['online', 'pageshow']) page.addEventListener?.(name, listener)
  document?.addEventListener('visibilitychange', onVisible)
  return () => {
    for (const name of ['online', 'pageshow']) page.removeEventListener?.(name, listener)
    document?.removeEventListener('visibilitychange', onVisible)
  }
}
