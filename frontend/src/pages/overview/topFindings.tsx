// The first findings, one line each.
import type { Figure, Figures, Notice, Notices } from '../../api/payloads'
import type { Scale } from '../../lib/format'
import { openView } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { BADGES, Sentence } from '../../widgets/notices'
import { SavingBar, SavingText, savingsScale } from '../../widgets/saving'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './topFindings.module.css'

/** Fits the first screen. */
const SHOWN = 4

/** `left`: number of dismissed findings. */
export function TopFindings(props: { payload: Notices; left: Figures | null; none: string }) {
  const { payload, left, none } = props
  const { notices, title } = payload
  const shown = notices.slice(0, SHOWN)
  const scale = savingsScale(shown)
  return (
    <Card
      className={layoutCss.span12}
      title={title}
      subtitle={notices.some((notice) => notice.saving) ? 'by maximum saving per step' : undefined}
      actions={
        notices.length > 0 && (
          <button type="button" className={textCss.link} onClick={() => openView('findings', {})}>
            {notices.length === 1 ? 'Show the finding' : `All ${notices.length} findings`}
          </button>
        )
      }
    >
      {notices.length === 0 && <p className={textCss.none}>{none}</p>}
      {shown.length > 0 && (
        <ol className={css.rows}>
          {shown.map((notice) => (
            <li key={notice.rule}>
              <button type="button" className={css.row} onClick={() => openView('findings', { rule: notice.rule })}>
                <b>{notice.title || notice.rule}</b>
                <span className={css.words}>
                  <Sentence notice={notice} text={notice.todo || notice.text} />
                </span>
                <FindingSaving notice={notice} scale={scale} />
              </button>
            </li>
          ))}
        </ol>
      )}
      {left && <DismissedCount figures={left.figures} />}
    </Card>
  )
}

function DismissedCount({ figures }: { figures: readonly Figure[] }) {
  const counts = figures.flatMap(({ metric, value }) =>
    typeof value === 'number' && value > 0 ? `${value} ${lowerFirst(metric.title)}` : [],
  )
  return (
    <p className={css.left}>
      {counts.join(', ')}.{' '}
      <button type="button" className={textCss.link} onClick={() => openView('findings', {})}>
        Show in Findings
      </button>
    </p>
  )
}

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1)

function FindingSaving({ notice, scale }: { notice: Notice; scale: Scale }) {
  if (!notice.saving)
    return (
      <>
        <span>
          <span className={BADGES[notice.severity]}>{notice.severity}</span>
        </span>
        <span className={css.unknown}>impact unknown</span>
      </>
    )
  return (
    <>
      <SavingBar saving={notice.saving} />
      <SavingText saving={notice.saving} scale={scale} short />
    </>
  )
}
