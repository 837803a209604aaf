// Pinned, moved, closed and filtered tracks; stored in the URL.

import { ActionIcon, Button, Checkbox, Popover, Slider, TextInput } from '@mantine/core'
import { useMemo } from 'react'
import { GUTTER, GUTTERS } from '../../canvas/timeline/layout'
import {
  type Arrangement,
  arrangeLanes,
  joinIds,
  type LaneName,
  moveLane,
  placeLane,
  placePinned,
  splitIds,
} from '../../lib/laneOrder'
import { setPrefs, usePrefs } from '../../state/prefs'
import { readRoute, setRoute, useRoute } from '../../state/urlState'
import { SmallButton } from '../../widgets/basics'
import { DownIcon, HideIcon, PinIcon, UpIcon } from '../../widgets/icons'
import toolbarCss from '../../parts/toolbar.module.css'
import textCss from '../../widgets/text.module.css'
import css from './tracksMenu.module.css'

interface Tracks {
  arrangement: Arrangement
  collapsed: ReadonlySet<string>
  toggle(id: string): void
  open(id: string): void
  pin(id: string): void
  hide(id: string): void
  /** Puts a track before another one, among the pinned ones or among the others; null = to the end. */
  place(all: readonly LaneName[], id: string, before: string | null): void
}

/** The ids with one added, or without it. */
function turned(ids: readonly string[], id: string): string {
  const next = new Set(ids)
  if (!next.delete(id)) next.add(id)
  return joinIds(next)
}

export function useTracks(): Tracks {
  const { pin, lanes, tracks, shut, hide } = useRoute()
  return useMemo(() => {
    const collapsed = new Set(splitIds(shut))
    const arrangement = {
      pinned: splitIds(pin),
      moved: splitIds(lanes),
      filter: tracks ?? '',
      hidden: splitIds(hide),
    }
    return {
      arrangement,
      collapsed,
      toggle: (id) => setRoute({ shut: turned(splitIds(shut), id) }),
      pin: (id) => setRoute({ pin: turned(arrangement.pinned, id) }),
      hide: (id) => setRoute({ hide: turned(arrangement.hidden, id) }),
      place: (all, id, before) =>
        arrangement.pinned.includes(id)
          ? setRoute({ pin: joinIds(placePinned(arrangement.pinned, id, before)) })
          : setRoute({ lanes: joinIds(placeLane(all, arrangement, id, before)) }),
      // Read on demand: a track may be toggled twice before React renders.
      open: (id) => {
        const route = readRoute()
        const without = (ids: string | undefined) => joinIds(splitIds(ids).filter((other) => other !== id))
        setRoute({ shut: without(route.shut), hide: without(route.hide) })
      },
    }
  }, [pin, lanes, tracks, shut, hide])
}

/** More tracks than these are not listed: the filter finds them. */
const LISTED = 200

export function TracksMenu({ all, tracks }: { all: readonly LaneName[]; tracks: Tracks }) {
  const { arrangement, collapsed, toggle, pin, hide } = tracks
  const { order, pinned } = arrangeLanes(all, arrangement)
  const { gutter } = usePrefs()
  const { pinned: pins, moved, hidden, filter } = arrangement
  const changed = pins.length + moved.length + hidden.length + collapsed.size + gutter > 0 || filter !== ''
  const unlisted = all.flatMap(({ id }, i) => (hidden.includes(id) ? [i] : []))
  return (
    <Popover position="bottom-end" withinPortal trapFocus>
      <Popover.Target>
        <Button size="sm" variant="default">
          Tracks{order.length < all.length ? ` (${order.length} of ${all.length})` : ''}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={`${toolbarCss.menu} ${css.tracks}`}>
          <TextInput
            size="xs"
            aria-label="Filter tracks"
            placeholder="Filter tracks by name"
            value={arrangement.filter}
            onChange={(event) => setRoute({ tracks: event.currentTarget.value })}
          />
          <Button.Group>
            <SmallButton onClick={() => setRoute({ shut: '' })}>Open all</SmallButton>
            <SmallButton onClick={() => setRoute({ shut: joinIds(all.map((track) => track.id)) })}>
              Close all
            </SmallButton>
            <SmallButton
              disabled={!changed}
              onClick={() => {
                setRoute({ shut: '', pin: '', lanes: '', tracks: '', hide: '' })
                setPrefs({ gutter: 0 })
              }}
            >
              Reset
            </SmallButton>
          </Button.Group>
          <div className={css.slider}>
            <span>Label width</span>
            <Slider
              className={css.width}
              size="sm"
              thumbLabel="Label width"
              min={GUTTERS.narrowest}
              max={GUTTERS.widest}
              step={10}
              label={null}
              value={gutter || GUTTER}
              onChange={(width) => setPrefs({ gutter: width })}
            />
          </div>
          {[...order.slice(0, LISTED), ...unlisted].map((i, at) => {
            const track = all[i]
            const name = track.subtitle ? `${track.title} · ${track.subtitle}` : track.title
            const isPinned = at < pinned
            const isHidden = hidden.includes(track.id)
            return (
              <div data-testid="track" className={css.row} key={track.id}>
                <Checkbox
                  size="xs"
                  checked={!collapsed.has(track.id)}
                  disabled={isHidden}
                  onChange={() => toggle(track.id)}
                  label={name}
                />
                <ActionIcon
                  size="xs"
                  variant={isHidden ? 'filled' : 'subtle'}
                  color="gray"
                  aria-pressed={isHidden}
                  aria-label={`Hide ${name}`}
                  onClick={() => hide(track.id)}
                >
                  <HideIcon />
                </ActionIcon>
                <ActionIcon
                  size="xs"
                  variant={isPinned ? 'filled' : 'subtle'}
                  color="gray"
                  aria-pressed={isPinned}
                  disabled={isHidden}
                  aria-label={`Pin ${name}`}
                  onClick={() => pin(track.id)}
                >
                  <PinIcon />
                </ActionIcon>
                {([-1, 1] as const).map((by) => (
                  <ActionIcon
                    key={by}
                    size="xs"
                    variant="subtle"
                    color="gray"
                    disabled={isPinned || isHidden}
                    aria-label={`Move ${name} ${by < 0 ? 'up' : 'down'}`}
                    onClick={() => setRoute({ lanes: joinIds(moveLane(all, arrangement, track.id, by)) })}
                  >
                    {by < 0 ? <UpIcon /> : <DownIcon />}
                  </ActionIcon>
                ))}
              </div>
            )
          })}
          {order.length > LISTED && (
            <p className={textCss.mute}>{order.length - LISTED} more. Use the filter to narrow the list.</p>
          )}
        </div>
      </Popover.Dropdown>
    </Popover>
  )
}
