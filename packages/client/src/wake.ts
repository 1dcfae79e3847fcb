// Detects that a device is back: its network returns, or somebody looks at the page again. Outside a page it never fires.

type Target = Pick<EventTarget, 'addEventListener'>
type Page = Partial<Target> & { readonly document?: Target & { readonly visibilityState: string } }

/** Ends when the signal is aborted. */
export function onWake(listener: () => void, signal: AbortSignal, where: object = globalThis): void {
  const page = where as Page
  const { document } = page
  for (const name of ['online', 'pageshow']) page.addEventListener?.(name, listener, { signal })
  const onVisible = () => document?.visibilityState === 'visible' && listener()
  document?.addEventListener('visibilitychange', onVisible, { signal })
}
