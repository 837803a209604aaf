// Share: link, tables, pictures and text of the page, files of the profile.
import { Button, Menu } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { getReport, originalUrl, type Query, windowUrl } from '../api/client'
import { fileName, type Place, placeOf } from '../lib/exportNames'
import { format } from '../lib/format'
import { pageMarkdown } from '../lib/markdown'
import { pagePayloads, useCurrent } from '../state/current'
import { problemOf, whenReady } from '../state/data'
import { readRoute, shareUrl } from '../state/urlState'
import { useCopied } from '../widgets/basics'
import { CopyIcon, DownloadIcon, LinkIcon } from '../widgets/icons'
import { type PagePicture, pagePictures } from './pagePictures'
import css from './shareMenu.module.css'

export function ShareMenu(props: {
  /** run, worker, span, window, capture, steps, phase and pattern; null without a profile. */
  base: Query | null
  /** Selected steps; '' = all. */
  steps: string
  /** Query of the open page. */
  title: string
  ready: boolean
  whole: 'trace' | 'window'
  events: boolean
}) {
  const { base, steps, title, ready, whole, events } = props
  const { csv, window: visible } = useCurrent()
  const [copied, copy] = useCopied()
  const [pictures, setPictures] = useState<PagePicture[]>([])
  const place = placeOf(base && { ...base, steps })
  const chosen = visible ? { start_ns: visible.start, end_ns: visible.end } : { steps }
  const what = visible
    ? `Visible window, ${format(visible.end - visible.start, 'ns')}`
    : steps
      ? `Steps ${steps}`
      : `Full ${whole}`
  const shown: Place = visible ? [['Visible', `${format(visible.start, 'ns')} to ${format(visible.end, 'ns')}`]] : []
  const markdown = () => pageMarkdown({ title, place: [...place, ...shown], payloads: pagePayloads() })
  const nameOf = (...more: string[]) => fileName([...place.map(([, value]) => value), title, ...more])
  return (
    <Menu
      position="bottom-end"
      transitionProps={{ duration: 100 }}
      width={300}
      onOpen={() => setPictures(ready ? pagePictures() : [])}
    >
      <Menu.Target>
        <Button size="sm" variant="default" leftSection={<LinkIcon />} aria-live="polite">
          {copied ? 'Copied' : 'Share'}
        </Button>
      </Menu.Target>
      <Menu.Dropdown className={css.menu}>
        <Menu.Item leftSection={<LinkIcon />} onClick={() => copy(shareUrl())}>
          Copy link
        </Menu.Item>
        {base && (
          <>
            <Menu.Label>This page</Menu.Label>
            <Menu.Item leftSection={<CopyIcon />} disabled={!ready} onClick={() => copy(markdown())}>
              Copy as Markdown
            </Menu.Item>
            <Menu.Item
              leftSection={<DownloadIcon />}
              disabled={!ready}
              onClick={() => save(new Blob([markdown()], { type: 'text/markdown' }), `${nameOf()}.md`)}
            >
              Markdown file
            </Menu.Item>
            <Menu.Item leftSection={<DownloadIcon />} component="a" href={csv?.url ?? '#'} download disabled={!csv}>
              Table as CSV
              <small className={css.note}>{csv ? `${csv.title}, all matching rows` : 'This page has no table.'}</small>
            </Menu.Item>
            {/* Prints only this frame; TensorBoard would print one sheet. */}
            <Menu.Item leftSection={<DownloadIcon />} disabled={!ready} onClick={() => window.print()}>
              Print or save as PDF
            </Menu.Item>
            <Menu.Label>All pages</Menu.Label>
            <HtmlItem query={{ ...base, ...chosen }} ready={ready} name={fileName(place.map(([, value]) => value))} />
            <HtmlItem query={{ ...base, ...chosen, redact: 1 }} ready={ready} name="report" />
            {pictures.length > 0 && <Menu.Label>Chart as PNG</Menu.Label>}
            {pictures.map((picture) => (
              <Menu.Item
                key={picture.title}
                leftSection={<DownloadIcon />}
                onClick={() => savePicture(picture, place, nameOf(picture.title))}
              >
                {picture.title}
              </Menu.Item>
            ))}
            <Menu.Label>Recording</Menu.Label>
            <Menu.Item leftSection={<DownloadIcon />} component="a" href={originalUrl(base)} download disabled={!ready}>
              Original file
              <small className={css.note}>as stored in the log directory</small>
            </Menu.Item>
            {events && (
              <Menu.Item
                leftSection={<DownloadIcon />}
                component="a"
                href={windowUrl({ ...base, ...chosen })}
                download
                disabled={!ready}
              >
                Chrome trace for Perfetto
                <small className={css.note}>{what}</small>
              </Menu.Item>
            )}
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  )
}

/** Parameters of the page Compare that name the baseline. */
const BASELINE = ['base_run', 'base_worker', 'base_span', 'base_steps', 'base_window', 'base_capture', 'per'] as const

function baselineOf(): Query {
  const route = readRoute()
  if (!/diff/.test(route.view ?? '')) return {}
  return Object.fromEntries(BASELINE.map((key) => [key, route[key]]))
}

/** Saves all pages as one HTML file. The menu stays open until the file is there. */
function HtmlItem({ query, ready, name }: { query: Query; ready: boolean; name: string }) {
  const [state, setState] = useState('')
  const request = useRef<AbortController | null>(null)
  useEffect(() => () => request.current?.abort(), [])
  const isRedacted = 'redact' in query
  const ask = async () => {
    if (request.current) return
    const abort = new AbortController()
    request.current = abort
    setState('Preparing the file…')
    try {
      const bytes = await whenReady(
        () => getReport({ ...query, ...baselineOf() }, abort.signal),
        () => abort.signal.aborted,
      )
      if (bytes) save(new Blob([bytes], { type: 'text/html' }), `${name}.html`)
      setState('Saved')
    } catch (error) {
      const { what, do: todo } = problemOf(error)
      if (!abort.signal.aborted) setState(`${what} ${todo}`)
    }
    request.current = null
  }
  return (
    <Menu.Item leftSection={<DownloadIcon />} disabled={!ready} closeMenuOnClick={false} onClick={ask}>
      {isRedacted ? 'HTML file, redacted' : 'HTML file'}
      <small className={css.note} role="status">
        {state || (isRedacted ? 'without paths, hosts and users' : 'to read offline, on a phone or on paper')}
      </small>
    </Menu.Item>
  )
}

function save(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

async function savePicture(picture: PagePicture, place: Place, name: string): Promise<void> {
  const content = await picture.png(place.map(([part, value]) => `${part} ${value}`).join(' · '))
  if (content) save(content, `${name}.png`)
}
