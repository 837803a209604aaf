// The context menu of the timeline: of an event, of the background, and of a track.
import { Menu } from '@mantine/core'
import type { ReactNode, RefObject } from 'react'
import type { MenuSpot, TimelineViewport } from '../../canvas/timeline/timelineViewport'
import { shortenMiddle, shortKernel } from '../../lib/names'
import { showHits } from '../../state/links'
import { tableOf } from '../../state/rowHighlight'
import { openView } from '../../state/urlState'
import { useCopied } from '../../widgets/basics'

type Engine = Pick<TimelineViewport, 'focus' | 'mark' | 'measureFrom' | 'reset' | 'scene'>

/** Actions on the track below the pointer. */
export interface TrackMenuActions {
  title: string
  isPinned: boolean
  isClosed: boolean
  /** null: a chart has none. */
  summarise: (() => void) | null
  pin: () => void
  hide: () => void
  toggle: () => void
}

export function CanvasMenu(props: {
  spot: MenuSpot | null
  onClose: () => void
  engine: RefObject<Engine | null>
  /** Label of the full range. */
  all: string
  onBookmark: (time: number) => void
  track?: TrackMenuActions | null
  /** Tracks that are hidden, and the way to show them. */
  hidden?: { count: number; show: () => void }
}) {
  const { spot, onClose, engine, all, onBookmark, track, hidden } = props
  const [, copy] = useCopied()
  if (!spot) return null
  const { item, at, time } = spot
  const event = item?.count === 1 ? item : null
  const range = item && { start: item.start, end: item.start + item.dur }
  // Tables of the page are those of the open rank.
  const home = event && !event.rank ? tableOf(event.name, kindOf(event.category)) : null
  return (
    <Menu
      key={`${at.x} ${at.y} ${time}`}
      opened
      onChange={(isOpen) => !isOpen && onClose()}
      position="bottom-start"
      middlewares={{ flip: false, shift: { crossAxis: true, padding: 8 } }}
      shadow="md"
      transitionProps={{ duration: 0 }}
    >
      <Menu.Target>
        <div style={{ position: 'fixed', left: at.x, top: at.y, width: 1, height: 1 }} />
      </Menu.Target>
      <Menu.Dropdown data-testid="canvas-menu">
        {item && (
          <Menu.Label title={item.name}>
            {event ? shortenMiddle(shortKernel(event.name), 48) : `${item.count.toLocaleString('en-US')} events`}
          </Menu.Label>
        )}
        {range && (
          <Entry onClick={() => engine.current?.focus(range)} keys="F">
            {event ? 'Zoom to event' : 'Zoom to these events'}
          </Entry>
        )}
        {range && range.end > range.start && (
          <Entry onClick={() => engine.current?.mark(range)} keys="M">
            Mark its time
          </Entry>
        )}
        {home && <Entry onClick={() => openView(home.view, home.state)}>Show in {home.label}</Entry>}
        {event && !event.rank && (
          <Entry onClick={() => showHits([`name:${event.name}`], '')}>Select all with this name</Entry>
        )}
        {event && <Entry onClick={() => copy(event.name)}>Copy name</Entry>}
        {item && <Menu.Divider />}
        {time !== null && (
          <>
            <Entry onClick={() => engine.current?.measureFrom(range?.start ?? time)} keys="R">
              {item ? 'Measure from its start' : 'Measure from here'}
            </Entry>
            <Entry onClick={() => onBookmark(time)} keys="B">
              Bookmark this time
            </Entry>
          </>
        )}
        {!item && time !== null && (
          <>
            <Entry onClick={() => engine.current?.mark(engine.current.scene.view)}>Mark the visible range</Entry>
            <Entry onClick={() => engine.current?.reset()} keys="0">
              {all}
            </Entry>
          </>
        )}
        {track && time !== null && <Menu.Divider />}
        {track && <TrackEntries track={track} />}
        {hidden && hidden.count > 0 && (
          <Entry onClick={hidden.show}>Show hidden tracks ({hidden.count.toLocaleString('en-US')})</Entry>
        )}
      </Menu.Dropdown>
    </Menu>
  )
}

function TrackEntries({ track }: { track: TrackMenuActions }) {
  const { title, isPinned, isClosed, summarise, pin, hide, toggle } = track
  return (
    <>
      <Menu.Label>{shortenMiddle(title, 48)}</Menu.Label>
      {summarise && <Entry onClick={summarise}>Summary of the track</Entry>}
      <Entry onClick={pin}>{isPinned ? 'Unpin track' : 'Pin track'}</Entry>
      <Entry onClick={toggle}>{isClosed ? 'Open track' : 'Close track'}</Entry>
      <Entry onClick={hide}>Hide track</Entry>
    </>
  )
}

/** Communication kernels are in the table of kernels. */
const kindOf = (category: string) => (category === 'communication' ? 'kernel' : category)

const Entry = (props: { onClick: () => void; keys?: string; children: ReactNode }) => (
  <Menu.Item onClick={props.onClick} rightSection={props.keys && <small aria-hidden="true">{props.keys}</small>}>
    {props.children}
  </Menu.Item>
)
