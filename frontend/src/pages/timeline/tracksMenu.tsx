// Pinned, moved, closed and filtered tracks; stored in the URL.

import { ActionIcon, Button, Checkbox, Popover, Slider, TextInput } from '@mantine/core'
import { useMemo } from 'react'
import { GUTTER, GUTTERS } from '../../canvas/timeline/layout'
import { type Arrangement, arrangeLanes, joinIds, type LaneName, moveLane, splitIds } from '../../lib/laneOrder'
import { setPrefs, usePrefs } from '../../state/prefs'
import { readRoute, setRoute, useRoute } from '../../state/urlState'
import { SmallButton } from '../../widgets/basics'
import { DownIcon, PinIcon, UpIcon } from '../../widgets/icons'
import toolbarCss from '../../parts/toolbar.module.css'
import textCss from '../../widgets/text.module.css'
import css from './tracksMenu.module.css'

interface Tracks {
  arrangement: Arrangement
  collapsed: ReadonlySet<string>
  toggle(id: string): void
  open(id: string): void
}

export function useTracks(): Tracks {
  const { pin, lanes, tracks, shut } = useRoute()
  return useMemo(() => {
    const collapsed = new Set(splitIds(shut))
    return {
      arrangement: { pinned: splitIds(pin), moved: splitIds(lanes), filter: tracks ?? '' },
      collapsed,
      toggle: (id) => {
        const next = new Set(collapsed)
        if (!next.delete(id)) next.add(id)
        setRoute({ shut: joinIds(next) })
      },
      // Read on demand: a track may be toggled twice before React renders.
      open: (id) => setRoute({ shut: joinIds(splitIds(readRoute().shut).filter((other) => other !== id)) }),
    }
  }, [pin, lanes, tracks, shut])
}

/** More tracks than these are not listed: the filter finds them. */
const LISTED = 200

export function TracksMenu({ all, tracks }: { all: readonly LaneName[]; tracks: Tracks }) {
  const { arrangement, collapsed, toggle } = tracks
  const { order, pinned } = arrangeLanes(all, arrangement)
  const { gutter } = usePrefs()
  const changed =
    arrangement.pinned.length + arrangement.moved.length + collapsed.size + gutter > 0 || arrangement.filter !== ''
  const pin = (id: string) => {
    const next = new Set(arrangement.pinned)
    if (!next.delete(id)) next.add(id)
    setRoute({ pin: joinIds(next) })
  }
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
                setRoute({ shut: '', pin: '', lanes: '', tracks: '' })
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
          {order.slice(0, LISTED).map((i, at) => {
            const track = all[i]
            const name = track.subtitle ? `${track.title} · ${track.subtitle}` : track.title
            const isPinned = at < pinned
            return (
              <div data-testid="track" className={css.row} key={track.id}>
                <Checkbox size="xs" checked={!collapsed.has(track.id)} onChange={() => toggle(track.id)} label={name} />
                <ActionIcon
                  size="xs"
                  variant={isPinned ? 'filled' : 'subtle'}
                  color="gray"
                  aria-pressed={isPinned}
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
                    disabled={isPinned}
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
