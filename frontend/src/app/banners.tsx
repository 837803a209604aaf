// Notes above every view: a file that is incomplete, still written or deleted, a view that has no data.
import { Alert, Button } from '@mantine/core'
import { type ReactNode, useEffect, useState } from 'react'
import type { Profile, ReadInfo, SpanInfo, ViewInfo } from '../api/payloads'
import { codePieces } from '../lib/codePieces'
import { deviceWord } from '../lib/deviceWords'
import { counted, format } from '../lib/format'
import { modelNoun } from '../lib/modelNouns'
import { openView } from '../state/urlState'
import { LinkButton } from '../widgets/basics'
import basicsCss from '../widgets/basics.module.css'
import textCss from '../widgets/text.module.css'
import css from './banners.module.css'

export const Banner = ({ testid, children }: { testid: string; children: ReactNode }) => (
  <Alert color="orange" variant="light" data-testid={testid} className={css.banner} role="status">
    {children}
  </Alert>
)

/** A file that changed so recently is probably still being written. */
const WRITING_MS = 60_000

/** Whether the file of a span changed within the last minute; false again when that is over. */
function useIsWritten(span: SpanInfo | null): boolean {
  const modified = span?.modified_unix_ms ?? 0
  const [, redraw] = useState(0)
  const left = modified + WRITING_MS - Date.now()
  useEffect(() => {
    if (left <= 0 || left > WRITING_MS) return
    const timer = window.setTimeout(() => redraw((n) => n + 1), left)
    return () => window.clearTimeout(timer)
  })
  return left > 0 && left <= WRITING_MS
}

export function FileBanners(props: { profile: Profile | null; span: SpanInfo | null; onMore: () => void }) {
  const { profile, span, onMore } = props
  const isWritten = useIsWritten(span)
  const deleted = profile?.state === 'ready' ? span?.problem : null
  return (
    <>
      {deleted && (
        <Banner testid="deleted">
          <b>{deleted.what}</b> {deleted.do} <span className={textCss.mono}>{deleted.where}</span>
        </Banner>
      )}
      {profile?.read && !profile.read.complete && (
        <Banner testid="cut">
          <IncompleteText read={profile.read} model={profile.model} isWritten={isWritten && !deleted} />{' '}
          <LinkButton onClick={onMore}>About this {modelNoun(profile.model)}</LinkButton>
        </Banner>
      )}
    </>
  )
}

function IncompleteText({ read, model, isWritten }: { read: ReadInfo; model: string; isWritten: boolean }) {
  const names = read.cut_files.join(', ')
  const events = `${counted(read.events_loaded, 'event')} ${read.events_loaded === 1 ? 'was' : 'were'} read`
  if (read.is_damaged)
    return (
      <>
        <b>{names ? `Damaged: ${names}.` : 'This file is damaged.'}</b> {events}; the rest is unreadable. Copy the file
        again and compare checksums, or record again. Findings that need the missing part are skipped.
      </>
    )
  if (isWritten)
    return (
      <>
        <b>This file is still being written.</b> {events} up to {format(read.file_bytes, 'bytes')}. The page reads it
        again when it grows.
      </>
    )
  return (
    <>
      <b>{names ? `Truncated: ${names}.` : 'This file is truncated.'}</b> {events}; the rest is missing
      {model === 'trace' && !names && `, often the ${deviceWord()} work. The ${deviceWord()} may therefore look idle`}.
      Findings that need the missing part are skipped.
    </>
  )
}

/** A view without data, opened by a link: why, and what records it. */
export function MissingView({ info, profile }: { info: ViewInfo; profile: Profile }) {
  const available = profile.views.filter((view) => view.available)
  const only = available.length === 1 ? available[0] : null
  return (
    <div className={basicsCss.panel}>
      <h2>{info.title}</h2>
      <p>{info.why}</p>
      {info.enable && (
        <p>
          To enable this view: <CodeText text={info.enable} />
        </p>
      )}
      {only && (
        <Button size="xs" onClick={() => openView(only.id, {})}>
          Back to {only.title}
        </Button>
      )}
    </div>
  )
}

/** A sentence whose options and calls are code. */
const CodeText = ({ text }: { text: string }) =>
  codePieces(text).map(({ isCode, text: piece }, i) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one sentence never move
    isCode ? <code key={i}>{piece}</code> : piece,
  )
