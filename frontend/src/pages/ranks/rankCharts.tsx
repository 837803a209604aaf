// Charts of one measure over all ranks.

import { Button } from '@mantine/core'
import { useEffect, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Heat, Series, Unit, View } from '../../api/payloads'
import { MAX_ROW_HEIGHT } from '../../canvas/matrix'
import { columnScale, format } from '../../lib/format'
import { joinIds } from '../../lib/laneOrder'
import { missingTraceText } from '../../lib/profiles'
import { byPlace, byStep, type Matrix, missingRanks, sortChoices } from '../../lib/rankMatrix'
import { rankKey } from '../../lib/rankSelection'
import type { RankZoom } from '../../lib/rankZoom'
import { isSteady, sortedMeans } from '../../lib/steadiness'
import { payloadByName } from '../../parts/payloadByName'
import { ViewFrame } from '../../parts/viewFrame'
import { useQuery, useView } from '../../state/data'
import { joinList } from '../../state/tensorboardHash'
import { openViewOfProfile, setRoute, useRoute } from '../../state/urlState'
import { Card, CloseButton, LineKeys, SmallButton, Value } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { Choice } from '../../widgets/choice'
import { type CellTooltip, MatrixPicture } from '../../widgets/matrix'
import { Spread } from '../../widgets/spread'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './rankCharts.module.css'

const FIRST = 'first'
const MAP_HEIGHT = 520
const PLACES_HEIGHT = 260
const PLACE_HEIGHT = 72
const CHART_HEIGHT = 240
/** Up to this many steps, charts are side by side. */
const NARROW = 4
/** Maximum number of ranks with a line of their own. */
const FEW = 4
const LINES = ['slice0', 'slice2', 'slice1', 'slice3']

/** Run and span of the ranks, and workers without a trace. */
export interface Place {
  run: string
  span: string
  absent: ReadonlySet<string>
}
export const ROWS = 'rows-of-ranks'

export function RankCharts({ base, place }: { base: Query; place: Place }) {
  const { by = '' } = useRoute()
  const query = useQuery(base, { measure: by || FIRST })
  const resource = useView('distributed', query)
  return (
    <ViewFrame
      resource={resource}
      bones={420}
      action={
        by !== '' && (
          <Button size="xs" onClick={() => setRoute({ by: '' }, true)}>
            Reset to the default measure
          </Button>
        )
      }
    >
      {(view) => <Pictures view={view} place={place} />}
    </ViewFrame>
  )
}

function Pictures({ view, place }: { view: View; place: Place }) {
  const heat = payloadByName(view, 'heat', 'heat')
  const spread = payloadByName(view, 'spread', 'series')
  // One rank has nothing to compare with.
  if (!heat || heat.rows.length < 2 || heat.x.length === 0) return null
  const hasPlaces = heat.groupings.some((grouping) => grouping.groups.length > 1)
  const hasSpread = spread !== null && heat.x.length > 1 && heat.rows.length > 1
  // A few steps fit half of the page.
  const isNarrow = hasSpread && !hasPlaces && heat.x.length <= NARROW
  return (
    <div className={`${layoutCss.grid} ${css.cards}`}>
      <MapCard heat={heat} place={place} wide={!isNarrow} />
      {hasSpread && <SpreadCard heat={heat} spread={spread} wide={!hasPlaces && !isNarrow} />}
      {hasPlaces && <PlacesCard heat={heat} place={place} wide={!hasSpread} />}
    </div>
  )
}

/** The selected cell; reset for another matrix. */
function useSelectedRank(matrix: Matrix): [number, (cell: number) => void] {
  const [kept, setKept] = useState(-1)
  // biome-ignore lint/correctness/useExhaustiveDependencies: in another picture the cell is another one
  useEffect(() => setKept(-1), [matrix])
  return [kept < matrix.values.length ? kept : -1, setKept]
}

function MapCard({ heat, place, wide }: { heat: Heat; place: Place; wide: boolean }) {
  const { rows: order = '' } = useRoute()
  const choices = useMemo(() => sortChoices(heat), [heat])
  const known = choices.some(({ value }) => value === order) ? order : 'name'
  const matrix = useMemo(() => byStep(heat, known), [heat, known])
  const [kept, keep] = useSelectedRank(matrix)
  const rankAt = (cell: number) => matrix.rankOf(Math.floor(cell / heat.x.length), cell % heat.x.length)
  const stepAt = (cell: number) => heat.x[cell % heat.x.length]
  const tell = (cell: number): CellTooltip => {
    const rank = rankAt(cell)
    const steps = heat.merged > 1 ? 'Largest step' : heat.x_metric.title
    return {
      title: heat.rows[rank],
      lines: [
        [steps, stepAt(cell)],
        [heat.metric.title, format(matrix.values[cell], heat.metric.unit)],
        ['Mean', format(heat.means[rank], heat.metric.unit)],
        ...whereIs(heat, rank),
      ],
    }
  }
  return (
    <Card
      className={wide ? layoutCss.span12 : `${layoutCss.span6} ${css.half}`}
      title={heat.title}
      subtitle={heat.subtitle}
      actions={
        <span className={css.choices}>
          <Choice
            label="Measure"
            value={heat.metric.key}
            onChange={(next) => setRoute({ by: next }, true)}
            options={heat.choices.map(({ key, title }) => ({ value: key, label: title }))}
          />
          <Choice
            label="Order of the ranks"
            value={known}
            onChange={(next) => setRoute({ rows: next === 'name' ? '' : next })}
            options={choices.map(({ value, label }) => ({
              value,
              label: `By ${label[0].toLowerCase()}${label.slice(1)}`,
            }))}
          />
        </span>
      }
    >
      <MatrixPicture
        matrix={matrix}
        unit={heat.metric.unit}
        category={heat.category}
        label={`${heat.title} of ${heat.rows.length.toLocaleString('en-US')} ranks by step`}
        noun="ranks"
        height={MAP_HEIGHT}
        tallest={wide ? undefined : Math.max(MAX_ROW_HEIGHT, Math.min(PLACE_HEIGHT, CHART_HEIGHT / heat.rows.length))}
        selected={kept}
        onSelect={keep}
        onOpen={(cell) => openRank(place, heat.rows[rankAt(cell)], 'overview', stepAt(cell))}
        tell={tell}
        axis={heat.x_metric.title}
        note={absentText(heat)}
      />
      {kept >= 0 && (
        <SelectedRank
          worker={heat.rows[rankAt(kept)]}
          steps={stepAt(kept)}
          value={matrix.values[kept]}
          unit={heat.metric.unit}
          title={heat.metric.title}
          place={place}
          onClose={() => keep(-1)}
        />
      )}
    </Card>
  )
}

function absentText(heat: Heat): string {
  const { count, first } = missingRanks(heat.rows)
  if (count === 0) return ''
  const rest = count > first.length ? ` and ${(count - first.length).toLocaleString('en-US')} more` : ''
  return `missing: ${count === 1 ? 'rank' : 'ranks'} ${first.join(', ')}${rest}`
}

function whereIs(heat: Heat, rank: number): [string, string][] {
  return heat.groupings.flatMap(({ title, groups, of, place, key }): [string, string][] =>
    of[rank] < 0 ? [] : [[title, key === 'node' ? groups[of[rank]] : `${groups[of[rank]]}, place ${place[rank]}`]],
  )
}

/** Opens a rank's view at the given steps; without a trace, its table rows. */
export function openRank(place: Place, worker: string, view: string, steps: string): void {
  if (place.absent.has(worker)) showRows(worker)
  else openViewOfProfile({ run: place.run, span: place.span, worker }, view, steps ? { steps } : {})
}

function showRows(worker: string): void {
  const none = { sort: '', desc: '', cols: '', row: '', search: '' }
  setRoute({ ...none, group: 'workers', where: joinList([`worker:${worker}`]) }, true)
  scrollToTables()
}

/** Brings the tables into sight, and the keyboard with them. */
export function scrollToTables(): void {
  const rows = document.getElementById(ROWS)
  rows?.scrollIntoView()
  rows?.focus({ preventScroll: true })
}

/** Opens the timeline with two ranks on it, one below the other. */
export function openTwoRanks(place: Place, worker: string, other: string, { steps, detail }: RankZoom): void {
  const open = { run: place.run, span: place.span, worker }
  const ranks = joinIds([rankKey(open, { ...open, worker: other })])
  // All traces were read for this page, so clocks are known.
  openViewOfProfile(open, 'timeline', {
    ranks,
    align: 'clocks',
    ...(steps && { steps }),
    ...(detail && { detail }),
  })
}

export const COMPARE_LABEL = 'Compare on the timeline'

const WAYS = [
  { view: 'overview', label: 'Overview' },
  { view: 'timeline', label: 'Timeline' },
]

export function OpenRank(props: { place: Place; worker: string; steps: string; usual?: string; sight?: RankZoom }) {
  const { place, worker, steps, usual, sight } = props
  if (place.absent.has(worker))
    return (
      <span className={textCss.row}>
        <SmallButton onClick={() => showRows(worker)}>Rows of {worker}</SmallButton>
        <span className={textCss.mute}>{missingTraceText(worker)}</span>
      </span>
    )
  return (
    <span className={textCss.row}>
      {WAYS.map(({ view, label }) => (
        <SmallButton key={view} onClick={() => openRank(place, worker, view, steps)}>
          {label} of {worker}
        </SmallButton>
      ))}
      {usual && !place.absent.has(usual) && (
        <SmallButton
          title={`${worker} and ${usual} (typical rank)`}
          onClick={() => openTwoRanks(place, worker, usual, sight ?? { steps, detail: '' })}
        >
          {COMPARE_LABEL}
        </SmallButton>
      )}
    </span>
  )
}

function SelectedRank(props: {
  worker: string
  steps: string
  value: number | null
  unit: Unit
  title: string
  place: Place
  onClose: () => void
}) {
  const { worker, steps, value, unit, title, place, onClose } = props
  return (
    <div className={css.selected} data-testid="kept-rank">
      <b>{worker}</b>
      <span className={textCss.mute}>
        {steps && `step ${steps} · `}
        {title} <Value value={value} unit={unit} />
      </span>
      <OpenRank place={place} worker={worker} steps={steps} />
      <CloseButton label="Deselect the rank" onClick={onClose} />
    </div>
  )
}

function SpreadCard({ heat, spread, wide }: { heat: Heat; spread: Series; wide: boolean }) {
  const worst = useMemo(() => heat.worst.map((rank) => (rank < 0 ? '' : heat.rows[rank])), [heat])
  const few = useMemo(() => (heat.rows.length <= FEW ? linesOf(heat) : null), [heat])
  const sorted = useMemo(() => (!few && isSteady(spread) ? sortedMeans(heat) : null), [few, heat, spread])
  if (sorted)
    return (
      <Card
        className={wide ? layoutCss.span12 : layoutCss.span6}
        title={`${heat.title}: ranks, largest first`}
        subtitle="mean step; the ranks differ equally in every step"
      >
        <Chart series={sorted} height={280} />
      </Card>
    )
  return (
    <Card
      className={wide ? layoutCss.span12 : layoutCss.span6}
      title={few ? `${heat.title} by step` : spread.title}
      subtitle={few ? 'each rank' : spread.subtitle}
    >
      {few ? (
        <>
          <LineKeys lines={few.lines} />
          <Chart series={few} height={280} />
        </>
      ) : (
        <Spread series={spread} category={heat.category} worst={worst} height={280} />
      )}
    </Card>
  )
}

function linesOf(heat: Heat): Series {
  const width = heat.x.length
  return {
    kind: 'series',
    sql: '',
    name: 'ranks',
    title: heat.title,
    subtitle: '',
    x_metric: heat.x_metric,
    x: heat.x,
    style: 'lines',
    lines: heat.rows.map((row, rank) => ({
      metric: { ...heat.metric, key: row, title: row },
      category: LINES[rank],
      values: heat.values.slice(rank * width, (rank + 1) * width),
    })),
  }
}

function PlacesCard({ heat, place, wide }: { heat: Heat; place: Place; wide: boolean }) {
  const { places = '' } = useRoute()
  const many = heat.groupings.filter((grouping) => grouping.groups.length > 1)
  const shown = many.find(({ key }) => key === places) ?? many.find(({ key }) => key !== 'node') ?? many[0]
  const matrix = useMemo(() => byPlace(heat, shown.key), [heat, shown])
  if (!matrix) return null
  return <PlacesOf heat={heat} place={place} wide={wide} many={many} shown={shown} matrix={matrix} />
}

function PlacesOf(props: {
  heat: Heat
  place: Place
  wide: boolean
  many: Heat['groupings']
  shown: Heat['groupings'][number]
  matrix: Matrix & { isTurned: boolean; outer: string }
}) {
  const { heat, place, wide, many, shown, matrix } = props
  const [kept, keep] = useSelectedRank(matrix)
  const scale = useMemo(() => columnScale(heat.metric.unit, heat.means), [heat])
  const rankAt = (cell: number) => matrix.rankOf(Math.floor(cell / matrix.columns.length), cell % matrix.columns.length)
  const tell = (cell: number): CellTooltip => {
    const rank = rankAt(cell)
    if (rank < 0) return { title: 'Missing', lines: [] }
    const mean = format(heat.means[rank], heat.metric.unit, scale)
    return { title: heat.rows[rank], lines: [[`${heat.metric.title}, mean step`, mean], ...whereIs(heat, rank)] }
  }
  const groups = shown.key === 'node' ? 'nodes' : `groups of ${shown.title}`
  const rank = kept < 0 ? -1 : rankAt(kept)
  return (
    <Card
      className={wide ? layoutCss.span12 : `${layoutCss.span6} ${css.half}`}
      title="Ranks by position"
      subtitle={`a ${matrix.isTurned ? 'row' : 'column'} is ${shown.key === 'node' ? 'a node' : 'a group'}; ${heat.metric.title.toLowerCase()}, mean step${matrix.outer && `; parts: place in ${matrix.outer}`}`}
      actions={
        many.length > 1 && (
          <Choice
            label="Groups of the ranks"
            value={shown.key}
            onChange={(next) => setRoute({ places: next })}
            options={many.map(({ key, title }) => ({ value: key, label: title }))}
          />
        )
      }
    >
      <MatrixPicture
        matrix={matrix}
        unit={heat.metric.unit}
        category={heat.category}
        label={`${heat.title} of the ranks by ${groups} and place`}
        noun="rows"
        axis={matrix.isTurned ? 'Place' : shown.key === 'node' ? 'Node' : 'Group'}
        height={PLACES_HEIGHT}
        tallest={PLACE_HEIGHT}
        selected={kept}
        onSelect={keep}
        onOpen={(cell) => rankAt(cell) >= 0 && openRank(place, heat.rows[rankAt(cell)], 'overview', '')}
        tell={tell}
      />
      {rank >= 0 && (
        <SelectedRank
          worker={heat.rows[rank]}
          steps=""
          value={heat.means[rank]}
          unit={heat.metric.unit}
          title={`${heat.metric.title}, mean step`}
          place={place}
          onClose={() => keep(-1)}
        />
      )}
    </Card>
  )
}
