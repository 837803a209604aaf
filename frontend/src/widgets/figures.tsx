// Named numbers as headline or list.
import type { Figure, Figures, Severity } from '../api/payloads'
import { isChange, type Scale, scaleOf } from '../lib/format'
import { type LinkOf, LinkOrText, MetricName, Value } from './basics'
import css from './figures.module.css'

const ALARMS: Partial<Record<Severity, string>> = { high: css.alarmHigh, medium: css.alarmMedium }

/** `scale`: common scale of figures with its unit. */
export function Headline(props: {
  figures: readonly Figure[]
  alarms?: ReadonlyMap<string, Severity>
  scale?: Scale
  wayOf?: LinkOf
}) {
  const { alarms, scale, wayOf } = props
  const known = props.figures.filter(({ value, note }) => value !== null || note)
  const figures = known.length > 0 ? known : props.figures
  const absent = props.figures.filter((figure) => !figures.includes(figure))
  return (
    <dl data-testid="headline" className={css.headline}>
      {figures.map((figure) => {
        const alarm = alarms?.get(figure.metric.key)
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
                  />
                </LinkOrText>
              </b>
              {figure.note && <em title={figure.note}>{figure.note}</em>}
            </dd>
          </div>
        )
      })}
      {absent.length > 0 && (
        <div className={css.absent}>
          <dt>No data</dt>
          <dd>
            {absent.map(({ metric }, i) => (
              <span key={metric.key}>
                {i > 0 && ', '}
                <MetricName metric={metric} />
              </span>
            ))}
          </dd>
        </div>
      )}
    </dl>
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
