// A list that stays scrolled to its end. If the reader scrolls up, it stays where it is.
import type { RefObject } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

export type Pinned<T extends HTMLElement> = {
  readonly ref: RefObject<T | null>
  readonly onScroll: () => void
  /** False if the reader has scrolled up. */
  readonly isAtEnd: boolean
  /** Scrolls to the end, and stays there. */
  readonly toEnd: () => void
}

const NEAR_PX = 40

/** `content`: a new value whenever the list grows. */
export function usePinned<T extends HTMLElement>(content: unknown): Pinned<T> {
  const ref = useRef<T>(null)
  const isPinned = useRef(true)
  const [isAtEnd, setAtEnd] = useState(true)
  const pin = (wish: boolean) => {
    isPinned.current = wish
    setAtEnd(wish)
  }
  const scroll = () => {
    const list = ref.current!
    list.scrollTop = list.scrollHeight
  }
  useLayoutEffect(() => {
    if (isPinned.current) scroll()
  }, [content])
  return {
    ref,
    isAtEnd,
    onScroll: () => {
      const { scrollTop, scrollHeight, clientHeight } = ref.current!
      pin(scrollHeight - scrollTop - clientHeight < NEAR_PX)
    },
    toEnd: () => {
      pin(true)
      scroll()
    },
  }
}
