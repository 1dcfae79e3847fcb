// A list that stays at its end while it is there; who scrolls up is left alone.
import { useLayoutEffect, useRef } from 'preact/hooks'

const NEAR_PX = 40

/** `content`: another value whenever there is more of it. */
export function usePinned<T extends HTMLElement>(content: unknown) {
  const ref = useRef<T>(null)
  const isPinned = useRef(true)
  useLayoutEffect(() => {
    const list = ref.current!
    if (isPinned.current) list.scrollTop = list.scrollHeight
  }, [content])
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = ref.current!
    isPinned.current = scrollHeight - scrollTop - clientHeight < NEAR_PX
  }
  return { ref, onScroll }
}
