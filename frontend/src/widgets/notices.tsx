// Findings: severity, the same few words for all, a sentence with its figures, what to do, where to read on, and the evidence.
import type { Link, Notice } from '../api/payloads'
import { format, isChange, type Scale, scaleOf } from '../lib/format'
import { parseFrame, shortFrame } from '../lib/frames'
import { shortenMiddle, shortKernel } from '../lib/names'
import { pieces } from '../lib/template'
import { MetricName, Value } from './basics'
import badgeCss from './badge.module.css'
import css from './notices.module.css'
import textCss from './text.module.css'

/** A template with its figures in bold; all of it text, never markup. `scale`: of all figures of its unit. */
export function Sentence({ notice, text, scale }: { notice: Notice; text: string; scale?: Scale }) {
  return (
    <>
      {pieces(text).map((piece, i) => {
        if (piece.kind === 'text') return piece.text
        const figure = notice.figures.find((item) => item.metric.key === piece.key)
        if (!figure) return `{${piece.key}}`
        const { key, unit } = figure.metric
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one sentence never move
          <b key={i}>
            {unit === 'code' ? (
              <ShortName name={String(figure.value ?? '')} />
            ) : (
              <Value value={figure.value} unit={unit} scale={scaleOf(scale, unit)} change={isChange(key)} />
            )}
          </b>
        )
      })}
    </>
  )
}

/** Characters of a name that a sentence has room for. */
const LONGEST = 64

/** Of a line of Python its folders go first; only names of C++ have a short form that says the same. */
const ShortName = ({ name }: { name: string }) => {
  const isPlace = parseFrame(name).line !== null
  const isFrame = isPlace && name.includes('.py(')
  const short = isFrame
    ? shortFrame(name, LONGEST)
    : !isPlace && /^void |<|::/.test(name) && !name.includes('#')
      ? shortKernel(name)
      : name
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

/** Where to read on, behind a sentence. */
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

/** `isFolded`: one line of what it says, two where there is room. */
export function NoticeItem(props: { notice: Notice; onLink: (link: Link) => void; isFolded?: boolean }) {
  const { notice, onLink, isFolded } = props
  const measure = notice.figures.find((figure) => figure.metric.key === notice.measure)
  const { evidence } = notice
  return (
    <li className={isFolded ? `${css.notice} ${css.folded}` : css.notice}>
      <span className={BADGES[notice.severity]}>{notice.severity}</span>
      <div>
        <div>
          <Sentence notice={notice} text={notice.text} />
          {measure && !notice.text.includes(`{${measure.metric.key}}`) && (
            <span className={textCss.mute}>
              {' '}
              <MetricName metric={measure.metric} />: {format(measure.value, measure.metric.unit)}.
            </span>
          )}
        </div>
        {!isFolded && (
          <p>
            {notice.todo && <Sentence notice={notice} text={notice.todo} />}
            <References notice={notice} />
          </p>
        )}
      </div>
      {evidence && (
        <button type="button" className={textCss.link} onClick={() => onLink(evidence)}>
          {evidence.text || 'Show evidence'}
        </button>
      )}
    </li>
  )
}

export function NoticeList({
  notices,
  onLink,
  none,
  isFolded,
}: {
  notices: readonly Notice[]
  onLink: (link: Link) => void
  none: string
  isFolded?: boolean
}) {
  if (notices.length === 0) return <p className={textCss.none}>{none}</p>
  return (
    <ul className={css.notices}>
      {notices.map((notice, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a rule may speak twice; the order is fixed
        <NoticeItem key={`${notice.rule} ${i}`} notice={notice} onLink={onLink} isFolded={isFolded} />
      ))}
    </ul>
  )
}
