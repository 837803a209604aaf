// Parts of a total: bar, table or donut.

import { Tooltip } from '@mantine/core'
import { useMemo, useState } from 'react'
import type { Breakdown, Link, Slice } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { columnScale, format, formatNumber } from '../lib/format'
import { labelsOf, shortKernel, withEnds } from '../lib/names'
import { isPerStep } from '../lib/perStep'
import { LinkButton, MetricHelp, MetricName, Swatch, Value } from './basics'
import basicsCss from './basics.module.css'
import css from './breakdown.module.css'
import plainTableCss from './plainTable.module.css'
import textCss from './text.module.css'

export type OnLink = (link: Link) => void

const share = (part: Slice, total: number) => (total > 0 ? part.value / total : 0)
const isIdle = (part: Slice) => part.category === 'idle'

/** `stacked`: part names one below another. */
export function BreakdownBar(props: { payload: Breakdown; onLink: OnLink; stacked?: boolean }) {
  const { payload, onLink, stacked } = props
  // A zero would claim that such events were recorded.
  const shown = payload.parts.filter((part) => part.value > 0)
  return (
    <div>
      <div className={css.strip} role="img" aria-label={describe(payload)}>
        {shown.map((part) => (
          <Tooltip key={part.metric.key} label={<MetricHelp metric={part.metric} />}>
            <b
              className={isIdle(part) ? basicsCss.idle : undefined}
              style={{ flexGrow: part.value, background: isIdle(part) ? undefined : categoryColor(part.category) }}
            />
          </Tooltip>
        ))}
      </div>
      <ul className={stacked ? `${css.key} ${css.stacked}` : css.key}>
        {shown.map((part) => (
          <li key={part.metric.key}>
            <Swatch color={categoryColor(part.category)} idle={isIdle(part)} />
            <PartName part={part} onLink={onLink} />
            <b>
              <Value value={part.value} unit={payload.unit} />
              {payload.unit !== 'ratio' && ` · ${format(share(part, payload.total), 'ratio')}`}
            </b>
          </li>
        ))}
        <li className={css.keyTotal}>
          Total{' '}
          <b>
            <Value value={payload.total} unit={payload.unit} />
          </b>
        </li>
      </ul>
    </div>
  )
}

function PartName({ part, onLink }: { part: Slice; onLink: OnLink }) {
  const { link } = part
  if (!link) return <MetricName metric={part.metric} />
  return (
    <Tooltip label={<MetricHelp metric={part.metric} />}>
      <LinkButton onClick={() => onLink(link)}>{part.metric.title}</LinkButton>
    </Tooltip>
  )
}

const describe = (payload: Breakdown) =>
  `${payload.title}: ${payload.parts
    .map(
      (part) =>
        `${part.metric.title} ${format(part.value, payload.unit)}, ${format(share(part, payload.total), 'ratio')}`,
    )
    .join('; ')}. Total ${format(payload.total, payload.unit)}.`

export function BreakdownTable({ payload, onLink, of }: { payload: Breakdown; onLink: OnLink; of: string }) {
  const scale = columnScale(payload.unit, [payload.total])
  const largest = Math.max(...payload.parts.map((part) => share(part, payload.total)), 1e-9)
  // A zero would claim that such events were recorded.
  const recorded = payload.parts.filter((part) => part.value !== 0)
  const absent = payload.parts.filter((part) => part.value === 0)
  return (
    <div className={css.frame}>
      <table className={plainTableCss.table}>
        <thead>
          <tr>
            <th scope="col">Category</th>
            <th scope="col">{scale.symbol || 'Value'}</th>
            <th scope="col">{of}</th>
          </tr>
        </thead>
        <tbody>
          {recorded.map((part) => (
            <tr key={part.metric.key}>
              <th scope="row">
                <Swatch color={categoryColor(part.category)} idle={isIdle(part)} />
                <PartName part={part} onLink={onLink} />
              </th>
              <td>
                <Value value={part.value} unit={payload.unit} scale={scale} bare />
              </td>
              <td className={css.share}>
                <span className={css.shareBar}>
                  <i
                    style={{
                      width: `${(share(part, payload.total) / largest) * 100}%`,
                      background: categoryColor(part.category),
                    }}
                  />
                </span>
                <span className={textCss.num}>
                  {formatNumber(share(part, payload.total), columnScale('ratio', [1]))}
                </span>
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Total</th>
            <td>
              <Value value={payload.total} unit={payload.unit} scale={scale} bare />
            </td>
            <td className={textCss.num}>{payload.total > 0 ? '100.0' : '–'}</td>
          </tr>
        </tfoot>
      </table>
      {absent.length > 0 && (
        <p className={textCss.none}>None recorded: {absent.map(({ metric }) => metric.title).join(', ')}.</p>
      )}
    </div>
  )
}

/** Legend names in two parts (see `withEnds`). */
function legendNames({ parts }: Breakdown): [string, string][] {
  const titles = parts.map((part) => part.metric.title)
  const labels = labelsOf(titles, 60, shortKernel)
  const ends = withEnds(titles.map(shortKernel))
  return titles.map((title, i) => {
    const rest = labels.get(title)?.rest ?? ''
    return rest.startsWith('…') ? [shortKernel(title), ` ${rest.slice(0, 14)}`] : ends[i]
  })
}

/** One ring segment between two fractions of a turn. */
function arc(from: number, to: number, outer: number, inner: number): string {
  const end = Math.min(to, from + 0.99999)
  const point = (turn: number, r: number) => {
    const angle = turn * 2 * Math.PI - Math.PI / 2
    return `${(50 + r * Math.cos(angle)).toFixed(3)} ${(50 + r * Math.sin(angle)).toFixed(3)}`
  }
  const large = end - from > 0.5 ? 1 : 0
  return `M${point(from, outer)}A${outer} ${outer} 0 ${large} 1 ${point(end, outer)}L${point(end, inner)}A${inner} ${inner} 0 ${large} 0 ${point(from, inner)}Z`
}

export function Donut({ payload, onLink, active }: { payload: Breakdown; onLink: OnLink; active?: string }) {
  const [hover, setHover] = useState('')
  const scale = columnScale(
    payload.unit,
    payload.parts.map((part) => part.value),
  )
  const names = useMemo(() => legendNames(payload), [payload])
  const focus = hover || active || ''
  let at = 0
  const slices = payload.parts.map((part) => {
    const from = at
    at += share(part, payload.total)
    return { part, from, to: at }
  })
  const chosen = payload.parts.find((part) => part.metric.key === focus)
  if (payload.total === 0) return <p className={textCss.none}>None recorded.</p>
  return (
    <div className={css.donut}>
      <svg viewBox="0 0 100 100" role="img" aria-label={describe(payload)}>
        {slices
          .filter(({ part }) => part.value > 0)
          .map(({ part, from, to }) => (
            // biome-ignore lint/a11y/noStaticElementInteractions: the legend's buttons do the same by keyboard
            <path
              key={part.metric.key}
              d={arc(from, to, 49, 32)}
              fill={categoryColor(part.category)}
              className={focus && focus !== part.metric.key ? css.dim : undefined}
              style={{ cursor: part.link ? 'pointer' : undefined }}
              onMouseEnter={() => setHover(part.metric.key)}
              onMouseLeave={() => setHover('')}
              onClick={() => part.link && onLink(part.link)}
            />
          ))}
        <text x="50" y="49" className={css.donutValue}>
          {chosen ? format(share(chosen, payload.total), 'ratio') : format(payload.total, payload.unit)}
        </text>
        <text x="50" y="59" className={css.donutNote}>
          {chosen ? 'of total' : payload.parts.some(({ metric }) => isPerStep(metric)) ? 'per step' : 'total'}
        </text>
      </svg>
      <ul data-testid="legend" className={css.legend}>
        {payload.parts.map((part, i) => (
          <LegendItem
            key={part.metric.key}
            part={part}
            parts={names[i]}
            value={formatNumber(part.value, scale)}
            symbol={scale.symbol}
            ratio={format(share(part, payload.total), 'ratio')}
            onHover={setHover}
            onLink={onLink}
            active={active === part.metric.key}
          />
        ))}
      </ul>
    </div>
  )
}

function LegendItem(props: {
  part: Slice
  /** Shrinkable and fixed part of the name. */
  parts: readonly [string, string]
  value: string
  symbol: string
  ratio: string
  onHover: (key: string) => void
  onLink: OnLink
  active: boolean
}) {
  const { part, parts, value, symbol, ratio, onHover, onLink, active } = props
  const { link } = part
  // Names share their starts: their distinguishing ends stay visible.
  const name = (
    <>
      <span>{parts[0]}</span>
      <span>{parts[1]}</span>
    </>
  )
  return (
    <li
      onMouseEnter={() => onHover(part.metric.key)}
      onMouseLeave={() => onHover('')}
      className={active ? css.active : undefined}
    >
      <Swatch color={categoryColor(part.category)} />
      {link ? (
        <button
          type="button"
          className={css.legendName}
          title={part.metric.title}
          aria-pressed={active}
          onClick={() => onLink(link)}
          onFocus={() => onHover(part.metric.key)}
          onBlur={() => onHover('')}
        >
          {name}
        </button>
      ) : (
        <span className={css.legendName} title={part.metric.definition || part.metric.title}>
          {name}
        </span>
      )}
      <span className={textCss.num}>
        {value} {symbol}
      </span>
      <span className={`${textCss.num} ${textCss.mute}`}>{ratio}</span>
    </li>
  )
}
