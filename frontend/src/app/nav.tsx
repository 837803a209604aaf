// The list of pages and the tabs of the open one; unavailable ones say why.
import { Popover, Tabs, Tooltip } from '@mantine/core'
import { type ReactNode, useEffect, useRef } from 'react'
import type { ViewInfo } from '../api/payloads'
import { firstTab, type NavPage, pagesOf } from '../lib/pages'
import { openView } from '../state/urlState'
import { NavIcon } from '../widgets/icons'
import basicsCss from '../widgets/basics.module.css'
import css from './nav.module.css'

/** The tab of each page that was open last. */
const lastTab = new Map<string, string>()

/** Opens a page where it was left. */
export function openPage(page: NavPage): void {
  const tab = firstTab(page, lastTab)
  if (tab) openView(tab.id)
}

/** Titles that do not fit below an icon. */
const SHORT: Readonly<Record<string, string>> = {
  operators: 'Operators',
  compile: 'Compile',
}

export function Nav(props: { views: readonly ViewInfo[]; active: string; foot: ReactNode; onActive: () => void }) {
  const { views, active, foot, onActive } = props
  const pages = pagesOf(views)
  const recorded = pages.filter(({ available }) => available)
  const missing = pages.filter(({ available }) => !available)
  const isOpen = (page: NavPage) => page.tabs.some(({ id }) => id === active)
  const frame = useRef<HTMLDivElement>(null)
  const open = pages.find(isOpen)?.id
  // A link may open a page whose entry is out of sight in a low window.
  useEffect(() => {
    if (open) frame.current?.querySelector('[aria-current=page]')?.scrollIntoView({ block: 'nearest' })
  }, [open])
  return (
    <div className={css.nav} ref={frame}>
      <nav aria-label="Pages">
        {recorded.map((page) => (
          <Tooltip key={page.id} label={page.title} position="right" openDelay={100} className={css.tip}>
            <button
              type="button"
              aria-label={page.title}
              className={isOpen(page) ? css.on : undefined}
              aria-current={isOpen(page) ? 'page' : undefined}
              onClick={() => {
                openPage(page)
                onActive()
              }}
            >
              <NavIcon page={page.id} />
              <span className={css.full}>{page.title}</span>
              <span className={css.short}>{SHORT[page.id] ?? page.title}</span>
            </button>
          </Tooltip>
        ))}
        {missing.length > 0 && (
          <details className={css.missing} open={missing.some(isOpen) || undefined}>
            <summary>
              <span className={css.full}>Not recorded ({missing.length})</span>
              <span className={css.short}>Not recorded</span>
            </summary>
            {missing.map((page) => (
              <Unavailable key={page.id} page={page} isOpen={isOpen(page)} />
            ))}
          </details>
        )}
      </nav>
      {foot && (
        <aside className={css.foot} aria-label="Log directory">
          {foot}
        </aside>
      )}
    </div>
  )
}

function Unavailable({ page, isOpen }: { page: NavPage; isOpen: boolean }) {
  const text = (
    <div className={basicsCss.help}>
      <b>{page.title}</b>
      {page.tabs.map((tab) => (
        <Reason key={tab.id} view={tab} title={page.tabs.length > 1 ? tab.tab : ''} />
      ))}
    </div>
  )
  return (
    <Popover position="right-start" width={300} withinPortal>
      <Popover.Target>
        <Tooltip label={text} position="right">
          <button
            type="button"
            className={isOpen ? `${css.off} ${css.on}` : css.off}
            aria-disabled="true"
            aria-current={isOpen ? 'page' : undefined}
            aria-label={page.title}
          >
            <NavIcon page={page.id} />
            <span className={css.full}>{page.title}</span>
            <span className={css.short}>{SHORT[page.id] ?? page.title}</span>
          </button>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown>{text}</Popover.Dropdown>
    </Popover>
  )
}

const Reason = ({ view, title }: { view: ViewInfo; title: string }) => (
  <>
    <div>
      {title && `${title}: `}
      {view.why || 'This page does not apply to this trace.'}
    </div>
    {view.enable && <div className={basicsCss.helpFoot}>To enable it: {view.enable}</div>}
  </>
)

/** The tabs of the page that contains the open view; nothing for a page of one view. */
export function PageTabs({ views, active }: { views: readonly ViewInfo[]; active: string }) {
  const page = pagesOf(views).find(({ tabs }) => tabs.some(({ id }) => id === active))
  if (!page) return null
  lastTab.set(page.id, active)
  // Findings are the body of the Overview.
  if (page.tabs.length < 2 || page.id === 'overview') return null
  return (
    <Tabs value={active} onChange={(view) => view && openView(view)} className={css.tabs}>
      <Tabs.List aria-label={page.title}>
        {page.tabs.map((tab) =>
          tab.available ? (
            <Tabs.Tab key={tab.id} value={tab.id} aria-controls="main">
              {tab.tab}
            </Tabs.Tab>
          ) : (
            <Tooltip key={tab.id} label={<Reason view={tab} title="" />}>
              <Tabs.Tab value={tab.id} aria-controls="main" className={css.unavailable}>
                {tab.tab}
              </Tabs.Tab>
            </Tooltip>
          ),
        )}
      </Tabs.List>
    </Tabs>
  )
}
