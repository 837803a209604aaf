// A tour of four stops: at the first visit, and from the help.
import { Button, Popover } from '@mantine/core'
import { useCallback, useEffect, useLayoutEffect, useState } from 'react'
import { setPrefs, usePrefs } from '../state/prefs'
import { openView, readRoute } from '../state/urlState'
import textCss from '../widgets/text.module.css'
import css from './tour.module.css'

interface Stop {
  /** Selector of the element that the stop explains. */
  at: string
  title: string
  text: string
  position: 'bottom-start' | 'right-start'
}

const STOPS: readonly Stop[] = [
  {
    at: 'main [data-testid="answer"]',
    title: 'The limit of the program',
    text: 'The first sentence of each page is its answer. On the Overview, it names the limit, its cost per step, and your line of code.',
    position: 'bottom-start',
  },
  {
    at: 'main section[aria-label="Findings"]',
    title: 'Findings and their savings',
    text: 'Each finding has a fix and the time that it saves per step. The largest saving comes first.',
    position: 'bottom-start',
  },
  {
    at: 'nav button[aria-label="Timeline"]',
    title: 'Every event on a timeline',
    text: 'The timeline shows every operator, kernel and Python call. Click a table row to see its events there.',
    position: 'right-start',
  },
  {
    at: 'nav button[aria-label="Compare"]',
    title: 'Compare and share',
    text: 'After a fix, compare the new recording with the old one. The link to a page contains its state: send it to a colleague.',
    position: 'right-start',
  },
]
const VIEW = 'overview'
/** Delay until the first look for the stops, and between two. */
const LOOK_MS = 300
const MOST_LOOKS = 20

/** Whether the page was opened by a link to a place. */
const fromLink = Object.keys(readRoute()).length > 0

/** Whether the tour is wanted, its start, and its end. `ready`: a profile is open; `view`: the open view. */
export function useTour(ready: boolean, view: string) {
  const { toured } = usePrefs()
  const [wanted, setWanted] = useState(!toured && !fromLink && !navigator.webdriver)
  const start = useCallback(() => {
    openView(VIEW, {})
    setWanted(true)
  }, [])
  const end = useCallback(() => {
    setWanted(false)
    setPrefs({ toured: true })
  }, [])
  return { open: wanted && ready && view === VIEW, start, end }
}

/** `onEnd`: after the last stop, Escape or Skip, or once another page is opened. */
export function Tour({ onEnd }: { onEnd: () => void }) {
  const [stops, setStops] = useState<readonly Stop[]>([])
  const [index, setIndex] = useState(0)
  useEffect(() => {
    // The answer of the page may still load.
    let looks = 0
    const timer = window.setInterval(() => {
      const found = STOPS.filter(({ at }) => document.querySelector(at))
      looks += 1
      if (!found.includes(STOPS[0]) && looks < MOST_LOOKS) return
      window.clearInterval(timer)
      setStops(found)
    }, LOOK_MS)
    return () => window.clearInterval(timer)
  }, [])
  const begun = stops.length > 0
  useEffect(() => {
    if (!begun) return
    // Wherever the focus is.
    const onKey = (event: KeyboardEvent) => event.key === 'Escape' && onEnd()
    window.addEventListener('keydown', onKey)
    return () => {
      window.removeEventListener('keydown', onKey)
      onEnd()
    }
  }, [begun, onEnd])
  const stop = stops[index]
  const box = useBox(stop?.at)
  if (!stop || !box) return null
  const isLast = index === stops.length - 1
  return (
    <Popover
      key={stop.at}
      opened
      closeOnClickOutside={false}
      closeOnEscape={false}
      position={stop.position}
      width={320}
      trapFocus
      returnFocus
      withArrow
      withRoles={false}
    >
      <Popover.Target>
        <div className={css.spot} style={box} aria-hidden />
      </Popover.Target>
      <Popover.Dropdown role="dialog" aria-label={`Tour: ${stop.title}`} data-testid="tour">
        <h2 className={css.title}>{stop.title}</h2>
        <p className={css.text}>{stop.text}</p>
        <div className={css.foot}>
          <small className={textCss.mute}>
            {index + 1} of {stops.length}
          </small>
          {!isLast && (
            <Button size="compact-sm" variant="subtle" color="gray" onClick={onEnd}>
              Skip the tour
            </Button>
          )}
          {index > 0 && (
            <Button size="compact-sm" variant="default" onClick={() => setIndex(index - 1)}>
              Back
            </Button>
          )}
          <Button size="compact-sm" data-autofocus onClick={() => (isLast ? onEnd() : setIndex(index + 1))}>
            {isLast ? 'Done' : 'Next'}
          </Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  )
}

interface Box {
  left: number
  top: number
  width: number
  height: number
}

/** The place of an element on the screen. It is scrolled into view first. */
function useBox(selector: string | undefined): Box | null {
  const [box, setBox] = useState<Box | null>(null)
  useLayoutEffect(() => {
    const element = selector === undefined ? null : document.querySelector(selector)
    if (!element) return
    element.scrollIntoView({ block: 'nearest' })
    const measure = () => {
      const { left, top, width, height } = element.getBoundingClientRect()
      setBox({ left, top, width, height })
    }
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(document.body)
    observer.observe(element)
    window.addEventListener('scroll', measure, { capture: true, passive: true })
    return () => {
      observer.disconnect()
      window.removeEventListener('scroll', measure, { capture: true })
    }
  }, [selector])
  return box
}
