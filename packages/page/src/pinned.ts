// A list that stays scrolled to its end. If the reader scrolls up, it stays where it is, also when older entries are put before the others.
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

/** `content`: a new value whenever the list grows. `older`: a new value whenever older entries are put before the others. */
export function usePinned<T extends HTMLElement>(content: unknown, older: unknown = 0): Pinned<T> {
  const ref = useRef<T>(null)
  const fromEnd = useRef(0)
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
  useLayoutEffect(() => {
    const list = ref.current!
    if (!isPinned.current) list.scrollTop = list.scrollHeight - fromEnd.current
  }, [older])
  useLayoutEffect(() => {
    fromEnd.current = ref.current!.scrollHeight - ref.current!.scrollTop
  })
  return {
    ref,
    isAtEnd,
    onScroll: () => {
      const { scrollTop, scrollHeight, clientHeight } = ref.current!
      fromEnd.current = scrollHeight - scrollTop
      pin(scrollHeight - scrollTop - clientHeight < NEAR_PX)
    },
    toEnd: () => {
      pin(true)
      scroll()
    },
  }
}
