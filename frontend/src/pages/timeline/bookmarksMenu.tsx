// Bookmarks on the time axis; stored in the URL.

import { Button, Popover, TextInput, VisuallyHidden } from '@mantine/core'
import { useEffect, useRef } from 'react'
import { precise } from '../../lib/format'
import { type Bookmark, MOST, NOTE_LENGTH, writeBookmarks } from '../../state/bookmarks'
import { setRoute } from '../../state/urlState'
import { CloseButton } from '../../widgets/basics'
import { BookmarkIcon } from '../../widgets/icons'
import toolbarCss from '../../parts/toolbar.module.css'
import textCss from '../../widgets/text.module.css'
import css from './bookmarksMenu.module.css'

const store = (bookmarks: readonly Bookmark[]) => setRoute({ bookmarks: writeBookmarks(bookmarks) })

export function addBookmark(bookmarks: readonly Bookmark[], time: number): void {
  if (bookmarks.length < MOST && !bookmarks.some((one) => one.time === time))
    store([...bookmarks, { time, note: '' }].sort((a, b) => a.time - b.time))
}

export function BookmarksMenu(props: {
  bookmarks: readonly Bookmark[]
  /** Time of the edited note; null: menu closed, NaN: open without one. */
  open: number | null
  onOpen: (time: number | null) => void
  onGo: (time: number) => void
  isSelected: boolean
  /** Sets one at the selected event, else in the middle of the window. */
  onAdd: () => void
}) {
  const { bookmarks, open, onOpen, onGo, isSelected, onAdd } = props
  const change = (time: number, note: string) =>
    store(bookmarks.map((one) => (one.time === time ? { time, note } : one)))
  return (
    <Popover position="bottom-end" withinPortal trapFocus opened={open !== null} onChange={(is) => !is && onOpen(null)}>
      <Popover.Target>
        <Button
          size="sm"
          variant="default"
          px={10}
          title="Bookmarks and notes on the time axis"
          leftSection={<BookmarkIcon />}
          onClick={() => onOpen(open === null ? Number.NaN : null)}
        >
          <VisuallyHidden>Bookmarks</VisuallyHidden>&nbsp;{bookmarks.length}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={`${toolbarCss.menu} ${css.menu}`}>
          {bookmarks.map(({ time, note }) => (
            <div key={time} className={css.row} data-testid="bookmark">
              <Button
                size="compact-xs"
                variant="subtle"
                className={textCss.num}
                title="Go to bookmark"
                onClick={() => onGo(time)}
              >
                {precise(time, 'ns')}
              </Button>
              <Note time={time} note={note} isOpen={time === open} onChange={change} onDone={() => onOpen(null)} />
              <CloseButton
                label={`Remove the bookmark at ${precise(time, 'ns')}`}
                onClick={() => store(bookmarks.filter((one) => one.time !== time))}
              />
            </div>
          ))}
          <div className={css.row}>
            <Button size="compact-sm" variant="default" disabled={bookmarks.length >= MOST} onClick={onAdd}>
              {isSelected ? 'Bookmark the selected event' : 'Bookmark the center'}
            </Button>
            <span className={textCss.mute}>B: bookmark the pointer's time</span>
          </div>
          <span className={textCss.mute}>Bookmarks are stored in the page's link.</span>
        </div>
      </Popover.Dropdown>
    </Popover>
  )
}

function Note(props: {
  time: number
  note: string
  isOpen: boolean
  onChange: (time: number, note: string) => void
  onDone: () => void
}) {
  const { time, note, isOpen, onChange, onDone } = props
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    // After the menu has focused its first field.
    const timer = isOpen ? window.setTimeout(() => field.current?.focus()) : 0
    return () => window.clearTimeout(timer)
  }, [isOpen])
  return (
    <TextInput
      ref={field}
      size="xs"
      className={css.note}
      aria-label={`Note at ${precise(time, 'ns')}`}
      placeholder="Note"
      maxLength={NOTE_LENGTH}
      value={note}
      onChange={(event) => onChange(time, event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') onDone()
      }}
    />
  )
}
