// Notices: severity, sentence, advice and evidence.
import { useMemo } from 'react'
import type { Link, Notice } from '../api/payloads'
import { format, isChange, type Scale, scaleOf } from '../lib/format'
import { parseFrame, shortFrame } from '../lib/frames'
import { shortenMiddle, shortKernel } from '../lib/names'
import { templatePieces } from '../lib/noticeTemplate'
import { LinkButton, type LinkOf, LinkOrText, MetricName, Value } from './basics'
import { SavingBlock, savingsScale } from './saving'
import badgeCss from './badge.module.css'
import css from './notices.module.css'
import textCss from './text.module.css'

/** A template with bold figures, rendered as text. `scale`: common scale of its unit; `noise`: key of a change. */
export function Sentence(props: { notice: Notice; text: string; scale?: Scale; wayOf?: LinkOf; noise?: string }) {
  const { notice, text, scale, wayOf, noise } = props
  return (
    <>
      {templatePieces(text).map((piece, i) => {
        if (piece.kind === 'text') return piece.text
        const figure = notice.figures.find((item) => item.metric.key === piece.key)
        // Sums that are not divided.
        if (piece.key === 'per_step') return ''
        if (!figure) return `{${piece.key}}`
        const { key, unit } = figure.metric
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one sentence never move
          <b key={i}>
            <LinkOrText go={wayOf?.(figure)}>
              {unit === 'code' ? (
                <ShortName name={String(figure.value ?? '')} />
              ) : (
                <Value
                  value={figure.value}
                  unit={unit}
                  scale={scaleOf(scale, unit)}
                  change={isChange(key)}
                  isNoise={key === noise}
                />
              )}
            </LinkOrText>
          </b>
        )
      })}
    </>
  )
}

export const Advice = ({ notice }: { notice: Notice }) => (
  <>
    <Sentence notice={notice} text={notice.text} />
    {notice.todo && ' '}
    {notice.todo && <Sentence notice={notice} text={notice.todo} />}
  </>
)

const LONGEST = 64

/** Python lines lose folders first; kernels have a short form. */
const ShortName = ({ name }: { name: string }) => {
  const isPlace = parseFrame(name).line !== null
  const isFrame = isPlace && name.includes('.py(')
  const short = isFrame ? shortFrame(name, LONGEST) : isPlace || name.includes('#') ? name : shortKernel(name)
  return (
    <span className={textCss.mono} title={name}>
      {shortenMiddle(short, LONGEST)}
    </span>
  )
}

export const BADGES = {
  high: `${badgeCss.badge} ${badgeCss.high}`,
  medium: `${badgeCss.badge} ${badgeCss.medium}`,
  low: badgeCss.badge,
  info: badgeCss.badge,
}

const isWeb = (url: string) => /^https?:\/\//i.test(url)

export const References = ({ notice }: { notice: Notice }) =>
  notice.references
    .filter((reference) => isWeb(reference.url))
    .map((reference, i) => (
      <span key={reference.url}>
        {i === 0 ? ' ' : ' · '}
        <a href={reference.url} target="_blank" rel="noreferrer noopener">
          {reference.text}
        </a>
      </span>
    ))

interface SentenceLinks {
  onLink: (link: Link) => void
  /** One line, or two if there is room; those of high severity stay whole on wide pages. */
  isFolded?: boolean
  wayOf?: LinkOf
}

/** `scale`: common scale of savings. */
function NoticeItem(props: SentenceLinks & { notice: Notice; scale: Scale }) {
  const { notice, scale, onLink, isFolded, wayOf } = props
  const measure = notice.figures.find((figure) => figure.metric.key === notice.measure)
  const { evidence } = notice
  return (
    <li
      className={`${css.notice} ${isFolded ? css.folded : ''} ${notice.severity === 'high' ? css.whole : ''} ${notice.saving ? css.saves : ''}`}
    >
      <span className={BADGES[notice.severity]}>{notice.severity}</span>
      <div>
        <div>
          <Sentence notice={notice} text={notice.text} wayOf={wayOf} />
          {measure && !notice.text.includes(`{${measure.metric.key}}`) && (
            <span className={textCss.mute}>
              {' '}
              <MetricName metric={measure.metric} />: {format(measure.value, measure.metric.unit)}.
            </span>
          )}
        </div>
        {!isFolded && (
          <p>
            {notice.todo && <Sentence notice={notice} text={notice.todo} wayOf={wayOf} />}
            <References notice={notice} />
          </p>
        )}
      </div>
      {notice.saving && <SavingBlock saving={notice.saving} scale={scale} />}
      {evidence && <LinkButton onClick={() => onLink(evidence)}>{evidence.text || 'Show evidence'}</LinkButton>}
    </li>
  )
}

export function NoticeList({ notices, none, ...told }: SentenceLinks & { notices: readonly Notice[]; none: string }) {
  const scale = useMemo(() => savingsScale(notices), [notices])
  if (notices.length === 0) return <p className={textCss.none}>{none}</p>
  return (
    <ul className={css.notices}>
      {notices.map((notice, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a rule may speak twice; the order is fixed
        <NoticeItem key={`${notice.rule} ${i}`} notice={notice} scale={scale} {...told} />
      ))}
    </ul>
  )
}
