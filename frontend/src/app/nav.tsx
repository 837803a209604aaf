// The list of views; unavailable ones say why.
import { Popover, Tooltip } from '@mantine/core'
import { Fragment, type ReactNode } from 'react'
import type { ViewInfo } from '../api/payloads'
import { openView } from '../state/urlState'
import { NavIcon } from '../widgets/icons'
import basicsCss from '../widgets/basics.module.css'
import css from './nav.module.css'

/** With more views than these they are listed in groups. */
const UNGROUPED = 9

function groupsOf(views: readonly ViewInfo[]): [string, ViewInfo[]][] {
  if (views.length <= UNGROUPED) return [['', [...views]]]
  const groups = new Map<string, ViewInfo[]>()
  for (const view of views) groups.set(view.group, [...(groups.get(view.group) ?? []), view])
  return [...groups]
}

/** In display order, which the number keys use. */
export const inOrder = (views: readonly ViewInfo[]) => groupsOf(views).flatMap(([, members]) => members)

export function Nav(props: { views: readonly ViewInfo[]; active: string; foot: ReactNode; onActive: () => void }) {
  const { views, active, foot, onActive } = props
  return (
    <div className={css.nav}>
      <nav aria-label="Views">
        {groupsOf(views).map(([group, members]) => (
          <Fragment key={group}>
            {group && (
              <h2 className={css.group}>
                <span>{group}</span>
              </h2>
            )}
            {members.map((view) =>
              view.available ? (
                <Tooltip key={view.id} label={view.title} position="right" openDelay={100} className={css.tip}>
                  <button
                    type="button"
                    className={view.id === active ? css.on : undefined}
                    aria-current={view.id === active ? 'page' : undefined}
                    onClick={() => {
                      openView(view.id)
                      onActive()
                    }}
                  >
                    <NavIcon view={view.id} />
                    <span>{view.title}</span>
                  </button>
                </Tooltip>
              ) : (
                <Unavailable key={view.id} view={view} />
              ),
            )}
          </Fragment>
        ))}
      </nav>
      {foot && (
        <aside className={css.foot} aria-label="Log directory">
          {foot}
        </aside>
      )}
    </div>
  )
}

function Unavailable({ view }: { view: ViewInfo }) {
  const text = (
    <div className={basicsCss.help}>
      <b>{view.title}</b>
      <div>{view.why || 'This view does not apply to this trace.'}</div>
      {view.enable && <div className={basicsCss.helpFoot}>To enable this view: {view.enable}</div>}
    </div>
  )
  return (
    <Popover position="right-start" width={300} withinPortal>
      <Popover.Target>
        <Tooltip label={text} position="right">
          <button type="button" className={css.off} aria-disabled="true">
            <NavIcon view={view.id} />
            <span>{view.title}</span>
          </button>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown>{text}</Popover.Dropdown>
    </Popover>
  )
}
