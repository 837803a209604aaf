// Named numbers as headline or list.
import { useState } from 'react'
import type { Figure, Figures, Severity } from '../api/payloads'
import { isChange, type Scale, scaleOf } from '../lib/format'
import { isPerStep } from '../lib/perStep'
import { type LinkOf, LinkOrText, MetricName, SmallButton, Value } from './basics'
import css from './figures.module.css'

const ALARMS: Partial<Record<Severity, string>> = { high: css.alarmHigh, medium: css.alarmMedium }

/** Figures that are shown at once; the others are on demand. */
const MOST = 5

/** Without figures that were not recorded. `scale`: common scale of figures with its unit. */
export function Headline(props: {
  figures: readonly Figure[]
  alarms?: ReadonlyMap<string, Severity>
  scale?: Scale
  wayOf?: LinkOf
  /** Key of a change within noise. */
  noise?: string
}) {
  const { alarms, scale, wayOf, noise } = props
  const [all, setAll] = useState(false)
  const recorded = props.figures.filter(({ value }) => value !== null)
  const figures = all || recorded.length <= MOST ? recorded : recorded.slice(0, MOST)
  if (recorded.length === 0) return null
  const list = (
    <dl data-testid="headline" className={css.headline}>
      {figures.map((figure) => {
        const alarm = alarms?.get(figure.metric.key)
        const note = figure.note || (isPerStep(figure.metric) ? 'per step' : '')
        return (
          <div key={`${figure.metric.key} ${figure.metric.title}`}>
            <dt>
              <MetricName metric={figure.metric} />
            </dt>
            <dd className={alarm && ALARMS[alarm]}>
              <b>
                <LinkOrText go={wayOf?.(figure)}>
                  <Value
                    value={figure.value}
                    unit={figure.metric.unit}
                    scale={scaleOf(scale, figure.metric.unit)}
                    change={isChange(figure.metric.key)}
                    isNoise={figure.metric.key === noise}
                  />
                </LinkOrText>
              </b>
              {note && <em title={note}>{note}</em>}
            </dd>
          </div>
        )
      })}
    </dl>
  )
  if (figures.length === recorded.length && !all) return list
  return (
    <div className={css.more}>
      {list}
      <SmallButton aria-expanded={all} onClick={() => setAll(!all)}>
        {all ? 'Fewer' : `${recorded.length - MOST} more`}
      </SmallButton>
    </div>
  )
}

/** `whole`: every digit of a recorded value, for a single event. */
export function FigureList({ figures, exact }: { figures: readonly Figure[]; exact?: boolean }) {
  return (
    <dl className={css.list}>
      {figures.map((figure) => (
        <div key={figure.metric.key}>
          <dt>
            <MetricName metric={figure.metric} />
          </dt>
          <dd>
            <Value value={figure.value} unit={figure.metric.unit} exact={exact} change={isChange(figure.metric.key)} />
            {figure.note && <em title={figure.note}>{figure.note}</em>}
          </dd>
        </div>
      ))}
    </dl>
  )
}

/** Figures by window; window names appear if there are several. */
export function WindowedList({ figures }: { figures: readonly Figure[] }) {
  const nameOf = ({ metric }: Figure) => metric.window.split(',')[0]
  const names = [...new Set(['', ...figures.map(nameOf)])]
  if (names.length < 3) return <FigureList figures={figures} />
  return names.map((name) => {
    const mine = figures.filter((figure) => nameOf(figure) === name)
    return (
      <div key={name}>
        {name && (
          <h3 className={css.window} title={[...new Set(mine.map(({ metric }) => metric.window))].join('; ')}>
            of {name}
          </h3>
        )}
        <FigureList figures={mine} />
      </div>
    )
  })
}

export function FiguresBlock({ payload }: { payload: Figures }) {
  return payload.style === 'headline' ? (
    <Headline figures={payload.figures} />
  ) : (
    <FigureList figures={payload.figures} />
  )
}
