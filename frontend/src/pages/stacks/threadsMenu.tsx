// The thread picker of stacks.

import { Button, Checkbox, Popover } from '@mantine/core'
import type { Table } from '../../api/payloads'
import { format } from '../../lib/format'
import { ALL, selectedThreads, type Thread, threadsOf, threadsText, writeThreads } from '../../lib/threadSelection'
import { SmallButton } from '../../widgets/basics'
import { ChevronDown } from '../../widgets/icons'
import toolbarCss from '../../parts/toolbar.module.css'
import textCss from '../../widgets/text.module.css'
import css from './threadsMenu.module.css'

export function ThreadsMenu(props: { table: Table; value: string; onChange: (value: string) => void }) {
  const { table, value, onChange } = props
  const threads = threadsOf(table.rows)
  const chosen = selectedThreads(threads, value)
  const idle = threads.filter((thread) => thread.idle)
  const said = threadsText(threads, value)
  const toggle = (key: string) => {
    const next = new Set(chosen)
    if (!next.delete(key)) next.add(key)
    onChange(writeThreads(threads, next))
  }
  const row = ({ key, name, ns }: Thread) => (
    <div data-testid="thread" className={css.row} key={key}>
      <Checkbox
        size="xs"
        checked={chosen.has(key)}
        // At least one thread is needed.
        disabled={chosen.size === 1 && chosen.has(key)}
        onChange={() => toggle(key)}
        label={name}
      />
      <span className={textCss.num}>{format(ns, 'ns')}</span>
      <Button
        size="compact-xs"
        variant="subtle"
        aria-label={`Only ${name}`}
        onClick={() => onChange(writeThreads(threads, new Set([key])))}
      >
        Only
      </Button>
    </div>
  )
  return (
    <Popover position="bottom-start" withinPortal trapFocus>
      <Popover.Target>
        <Button
          size="sm"
          variant="default"
          className={css.button}
          aria-label={`Threads: ${said}`}
          title={said}
          rightSection={<ChevronDown />}
        >
          {said}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={`${toolbarCss.menu} ${css.threads}`}>
          <Button.Group>
            <SmallButton disabled={value === ''} onClick={() => onChange('')}>
              {idle.length > 0 ? 'Busy threads' : 'All threads'}
            </SmallButton>
            {idle.length > 0 && (
              <SmallButton disabled={value === ALL} onClick={() => onChange(ALL)}>
                All, including idle
              </SmallButton>
            )}
          </Button.Group>
          {threads.filter((thread) => !thread.idle).map(row)}
          {idle.length > 0 && <p className={css.group}>Idle</p>}
          {idle.map(row)}
          {table.total_rows > threads.length && (
            <p className={textCss.mute}>
              {table.total_rows - threads.length} more with less time. Add them to the URL: thread=pid:tid.
            </p>
          )}
        </div>
      </Popover.Dropdown>
    </Popover>
  )
}
