// A list that stays scrolled to its end. If the reader scrolls up, it stays where it is.
import { useLayoutEffect, useRef } from 'preact/hooks'

const NEAR_PX = 40

/** `content`: a new value whenever the list grows. */
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
