// Buttons on the names of tracks: open, summarise, pin, hide, move. The canvas draws the names.
import { ActionIcon } from '@mantine/core'
import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from 'react'
import type { TrackStack } from '../canvas/timeline/engine'
import { dropIndex, HEAD, type Placed } from '../canvas/timeline/layout'
import { DragIcon, HideIcon, PinIcon } from './icons'
import css from './trackHeads.module.css'

export interface TrackActions {
  isPinned(id: string): boolean
  toggle(id: string): void
  pin(id: string): void
  hide(id: string): void
  /** Puts a track before another one of its region; null = to the end. */
  place(id: string, before: string | null): void
  summarise(id: string): void
}

/** Pixels above and below the visible area in which heads are rendered, for Tab and for scrolling. */
const MARGIN = 600
/** Pointer movement that starts a drag. */
const DRAG_PX = 5

interface HeadsProps {
  stack: TrackStack
  /** The caller moves it with the tracks. */
  moved: RefObject<HTMLDivElement | null>
  canvas: RefObject<HTMLCanvasElement | null>
  actions: TrackActions
  /** Scrolls to a track. */
  onBring: (id: string) => void
}

export function TrackHeads({ stack, moved, canvas, actions, onBring }: HeadsProps) {
  const { layout, scroll, room } = stack
  const list = useRef<HTMLDivElement>(null)
  // A single track has Tab stops; arrow keys go to the others.
  const [current, setCurrent] = useState('')
  const shown = layout.rest.filter(
    ({ top, height }) => top + height >= scroll - MARGIN && top <= scroll + room + MARGIN,
  )
  const all = [...layout.pinned, ...shown]
  const stop = all.some(({ track }) => track.id === current) ? current : (all[0]?.track.id ?? '')
  useForwardedInput(list, canvas)
  useFocusAfterMove(list, stack)
  const head = (region: readonly Placed[]) => (placed: Placed) => (
    <TrackHead
      key={placed.track.id}
      placed={placed}
      region={region}
      isStop={placed.track.id === stop}
      actions={actions}
      onFocus={() => {
        setCurrent(placed.track.id)
        onBring(placed.track.id)
      }}
    />
  )
  return (
    <div ref={list} className={css.heads} role="group" aria-label="Tracks" onKeyDown={walk}>
      {layout.pinned.length > 0 && (
        <div className={css.region} style={{ top: HEAD, height: layout.fixed }}>
          {layout.pinned.map(head(layout.pinned))}
        </div>
      )}
      <div className={`${css.region} ${css.scrolled}`}>
        <div ref={moved} className={css.moved}>
          {shown.map(head(layout.rest))}
        </div>
      </div>
    </div>
  )
}

/** Arrow keys go to the same button of the next track, and to the next button of a track. */
function walk(event: KeyboardEvent<HTMLElement>): void {
  const button = event.target as HTMLElement
  const head = button.closest<HTMLElement>('[data-track]')
  if (!head || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return
  const at = buttonsOf(head).indexOf(button as HTMLButtonElement)
  const heads = [...event.currentTarget.querySelectorAll('[data-track]')]
  const next = (by: number) => buttonsOf(heads[heads.indexOf(head) + by])[at]
  const to: Record<string, () => HTMLButtonElement | undefined> = {
    ArrowUp: () => next(-1),
    ArrowDown: () => next(1),
    ArrowLeft: () => buttonsOf(head)[at - 1],
    ArrowRight: () => buttonsOf(head)[at + 1],
  }
  const go = to[event.key]
  if (!go) return
  event.preventDefault()
  go()?.focus()
}

const buttonsOf = (head: Element | null | undefined) => [...(head?.querySelectorAll('button') ?? [])]

/** A pinned track goes to another region, a hidden one goes away: the focus stays in the list. */
function useFocusAfterMove(list: RefObject<HTMLElement | null>, stack: TrackStack): void {
  const last = useRef<{ track: string; at: number } | null>(null)
  useEffect(() => {
    const node = list.current
    const note = ({ target }: FocusEvent) => {
      const head = (target as HTMLElement).closest<HTMLElement>('[data-track]')
      const at = buttonsOf(head).indexOf(target as HTMLButtonElement)
      last.current = head ? { track: head.dataset.track ?? '', at } : null
    }
    // A removed button loses the focus to nothing; so does one when somebody presses elsewhere.
    const leave = ({ relatedTarget }: FocusEvent) => {
      if (relatedTarget) last.current = null
    }
    const press = () => {
      last.current = null
    }
    node?.addEventListener('focusin', note)
    node?.addEventListener('focusout', leave)
    window.addEventListener('pointerdown', press, true)
    return () => {
      node?.removeEventListener('focusin', note)
      node?.removeEventListener('focusout', leave)
      window.removeEventListener('pointerdown', press, true)
    }
  }, [list])
  // biome-ignore lint/correctness/useExhaustiveDependencies: looked at when tracks have moved
  useEffect(() => {
    if (!last.current || document.activeElement !== document.body) return
    const { track, at } = last.current
    const heads = [...(list.current?.querySelectorAll<HTMLElement>('[data-track]') ?? [])]
    const head =
      heads.find((one) => one.dataset.track === track) ?? heads.find((one) => buttonsOf(one)[0]?.tabIndex === 0)
    buttonsOf(head)[at]?.focus()
  }, [stack, list])
}

/** The wheel and the context menu work over the names as over the canvas below them. */
function useForwardedInput(list: RefObject<HTMLElement | null>, canvas: RefObject<HTMLCanvasElement | null>): void {
  useEffect(() => {
    const node = list.current
    const forward = (event: WheelEvent) => {
      event.stopPropagation()
      if (canvas.current?.dispatchEvent(new WheelEvent('wheel', event)) === false) event.preventDefault()
    }
    const onMenu = (event: MouseEvent) => {
      const { clientX, clientY } = event
      event.preventDefault()
      canvas.current?.dispatchEvent(new MouseEvent('contextmenu', { clientX, clientY, button: 2 }))
    }
    node?.addEventListener('wheel', forward, { passive: false })
    node?.addEventListener('contextmenu', onMenu)
    return () => {
      node?.removeEventListener('wheel', forward)
      node?.removeEventListener('contextmenu', onMenu)
    }
  }, [list, canvas])
}

interface Drag {
  /** Pointer position at the press, in window pixels. */
  from: number
  isMoving: boolean
}

function TrackHead(props: {
  placed: Placed
  region: readonly Placed[]
  isStop: boolean
  actions: TrackActions
  onFocus: () => void
}) {
  const { placed, region, isStop, actions, onFocus } = props
  const { track, top, height, small } = placed
  const { id, title } = track
  const full = track.subtitle ? `${title} · ${track.subtitle}` : title
  const isPinned = actions.isPinned(id)
  const press = useRef<Drag | null>(null)
  const [to, setTo] = useState<number | null>(null)
  const others = region.filter((one) => one.track.id !== id)
  const place = (at: number) => actions.place(id, others[at]?.track.id ?? null)
  const own = region.findIndex((one) => one.track.id === id)
  const onMove = (event: PointerEvent<HTMLElement>) => {
    const drag = press.current
    if (!drag) return
    if (!drag.isMoving && Math.abs(event.clientY - drag.from) < DRAG_PX) return
    drag.isMoving = true
    event.currentTarget.setPointerCapture(event.pointerId)
    const inside = event.clientY - (event.currentTarget.parentElement?.getBoundingClientRect().top ?? 0)
    setTo(dropIndex(others, inside))
  }
  const end = (isDropped: boolean) => {
    if (isDropped && press.current?.isMoving && to !== null && to !== own) place(to)
    press.current = null
    setTo(null)
  }
  const line = to === null ? null : (others[to]?.top ?? (others.at(-1)?.top ?? 0) + (others.at(-1)?.height ?? 0))
  return (
    <>
      {line !== null && <div className={css.line} style={{ top: line }} />}
      <div
        role="group"
        aria-label={title}
        data-track={id}
        data-testid="track-head"
        data-tile
        className={to === null ? css.head : `${css.head} ${css.dragged}`}
        style={{ top, height: height - 1 }}
        onFocus={onFocus}
        onPointerDown={(event) => {
          if (event.button === 0) press.current = { from: event.clientY, isMoving: false }
        }}
        onPointerMove={onMove}
        onPointerUp={() => end(true)}
        onPointerCancel={() => end(false)}
      >
        <button
          type="button"
          className={`${css.button} ${css.twisty}`}
          tabIndex={isStop ? 0 : -1}
          aria-expanded={!small}
          aria-label={`Rows of ${title}`}
          title={small ? 'Open' : 'Close'}
          onClick={() => actions.toggle(id)}
        />
        <button
          type="button"
          className={`${css.button} ${css.name}`}
          tabIndex={isStop ? 0 : -1}
          aria-label={track.kind === 'lane' ? `Summary of ${title}` : `Open or close ${title}`}
          title={full}
          onClick={() => (track.kind === 'lane' ? actions.summarise(id) : actions.toggle(id))}
        />
        <span className={css.tools}>
          <Tool label={`Pin ${title}`} isStop={isStop} isPressed={isPinned} onClick={() => actions.pin(id)}>
            <PinIcon />
          </Tool>
          <Tool label={`Hide ${title}`} isStop={isStop} onClick={() => actions.hide(id)}>
            <HideIcon />
          </Tool>
          <Tool
            label={`Move ${title}: drag, or press Alt and an arrow key`}
            isStop={isStop}
            onKeyDown={(event) => {
              const by = { ArrowUp: -1, ArrowDown: 1 }[event.key]
              if (by === undefined || !event.altKey) return
              event.preventDefault()
              if (own + by >= 0 && own + by <= others.length) place(own + by)
            }}
          >
            <DragIcon />
          </Tool>
        </span>
      </div>
    </>
  )
}

function Tool(props: {
  label: string
  isStop: boolean
  isPressed?: boolean
  onClick?: () => void
  onKeyDown?: (event: KeyboardEvent) => void
  children: ReactNode
}) {
  const { label, isStop, isPressed, onClick, onKeyDown, children } = props
  return (
    <ActionIcon
      size={18}
      variant={isPressed ? 'filled' : 'subtle'}
      color="gray"
      tabIndex={isStop ? 0 : -1}
      aria-pressed={isPressed}
      aria-label={label}
      title={label}
      onClick={onClick}
      onKeyDown={onKeyDown}
    >
      {children}
    </ActionIcon>
  )
}
