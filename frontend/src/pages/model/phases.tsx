// Phases: annotations as a tree with their times.
import { Button, TextInput, Tooltip } from '@mantine/core'
import { useEffect, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Figures, Profile, Series, Tree, Unit, View } from '../../api/payloads'
import { categoryColor } from '../../lib/color'
import { counted, format } from '../../lib/format'
import { shortenMiddle } from '../../lib/names'
import { isPerStep } from '../../lib/perStep'
import { barsByPhase, largestPhase, nestedShare, phaseMeasure } from '../../lib/phases'
import type { Row } from '../../lib/tableRows'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { type Group, TableSection } from '../../parts/tableSection'
import { TreePage } from '../../parts/treePage'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { CloseButton, Value } from '../../widgets/basics'
import { FormChoice, useForm } from './formChoice'
import frameCss from '../../parts/viewFrame.module.css'
import textCss from '../../widgets/text.module.css'
import barsCss from './bars.module.css'
import css from './phases.module.css'

const DEVICE = 'phase_device_ns'
const HOST = 'host_total_ns'
const BARS_WIDTH = 116
/** So much of the outermost phase without a name is worth a sentence. */
const UNNAMED = 0.1
const GROUPS: Group[] = [{ table: 'phases', label: 'Phases', nameStyle: 'plain' }]

const FORMS = [
  { value: 'tree', label: 'Tree' },
  { value: 'table', label: 'By phase' },
]

const whereOf = (row: Row) => [`phase:${row.phase}`]
const categoryOf = (_: Row, value: string) => (value === DEVICE ? 'kernel' : 'cpu')
const NO_ROW = { row: '', zoom: '' }

/** The denominator of CPU shares. */
function allOf({ steps, views }: Profile): string {
  if (steps.length > 0) return 'the CPU time of the steps'
  const operators = views.some(({ id, available }) => id === 'operators' && available)
  return operators ? 'the time from its first to its last operator' : 'the recording'
}

export function Phases({ base, profile }: PageProps) {
  const resource = useView('phases', base)
  const { pattern = '', phase = '' } = useRoute()
  return (
    <ViewFrame
      resource={resource}
      bones={500}
      steps={String(base.steps ?? '')}
      action={
        pattern || phase ? (
          <span className={textCss.row}>
            <Pattern names={null} />
            <Button size="xs" onClick={() => setRoute({ pattern: '', phase: '', ...NO_ROW }, true)}>
              Reset phases and grouping
            </Button>
          </span>
        ) : undefined
      }
    >
      {(view) => <Page view={view} base={base} stepped={profile.steps.length > 0} all={allOf(profile)} />}
    </ViewFrame>
  )
}

function Page({ view, base, stepped, all }: { view: View; base: Query; stepped: boolean; all: string }) {
  const route = useRoute()
  const tree = view.payloads.tree as Tree
  const names = view.payloads.names as Figures
  const value = phaseMeasure(tree, route.width)
  const series = view.payloads[value === DEVICE ? 'phase_device_in_step' : 'phase_host_in_step'] as Series | undefined
  const bars = useMemo(() => (series ? barsByPhase(series) : null), [series])
  const inTable = useForm(FORMS) === 'table'
  const told = inTable ? phaseMeasure(tree, route.sort, payloadByName(view, 'phases', 'table')?.sort?.key) : value
  const form = (
    <>
      <FormChoice forms={FORMS} />
      <Pattern names={names} />
    </>
  )
  const labels = series?.x.map(String) ?? []
  return (
    <div className={frameCss.page}>
      <Answer view={view} tree={tree} value={told} stepped={stepped} all={all} />
      {inTable ? (
        <TableSection
          view="phases"
          base={base}
          groups={GROUPS}
          lead={form}
          placeholder="Search phases, text or /regex/"
          detail={(row, table) => (
            <RowDetail
              row={row}
              table={table}
              base={base}
              actions={<SelectPhaseButton row={row} size="compact-xs" />}
            />
          )}
        />
      ) : (
        <TreePage
          tree={tree}
          lead={form}
          noun="phases"
          ordered
          whereOf={whereOf}
          categoryOf={categoryOf}
          actions={(row) => <SelectPhaseButton row={row} size="compact-xs" />}
          extra={
            bars
              ? {
                  title: 'By step',
                  help: `${series?.title}, one bar per step, over all calls of the phase`,
                  width: BARS_WIDTH,
                  cell: (row) => (
                    <Bars
                      values={bars.get(String(row.phase)) ?? []}
                      labels={labels}
                      noun="step"
                      category={categoryOf(row, value)}
                      width={BARS_WIDTH}
                    />
                  ),
                }
              : undefined
          }
        />
      )}
    </div>
  )
}

/** The answer: the largest phase and idle time. `all`: the denominator of CPU shares. */
function Answer(props: { view: View; tree: Tree; value: string; stepped: boolean; all: string }) {
  const { view, tree, value, stepped, all } = props
  const { phase = '' } = useRoute()
  const found = largestPhase(tree, payloadByName(view, 'phases', 'table')?.rows ?? [], value, stepped)
  if (!found) return null
  const { row, root, inner, step } = found
  const naming = figureValue(payloadByName(view, 'names', 'figures'), 'phase_naming')
  const title = tree.columns.find(({ metric }) => metric.key === DEVICE)?.metric.title ?? 'GPU'
  const word = title === 'Device' ? 'device' : title
  const divided = tree.columns.some(({ metric }) => metric.key === HOST && isPerStep(metric))
  const number = (key: string) => Number(row[key] ?? 0)
  const time = (of: Row, key: string) => (
    <>
      <Bold value={Number(of[key] ?? 0)} unit="ns" />
      {divided && ' per step'}
    </>
  )
  const device = tree.value_columns.includes(DEVICE)
  const ofDevice = value === DEVICE
  const isStep = row.phase === step
  const onHost = (
    <>
      {time(row, HOST)} on the CPU (<Bold value={number('phase_step_ratio')} unit="ratio" /> of {all})
    </>
  )
  const onDevice = (
    <>
      {time(row, DEVICE)} on the {word} (<Bold value={number('phase_device_ratio')} unit="ratio" /> of all {word} work)
    </>
  )
  const [first, second] = found.key === HOST ? [onHost, device && number(DEVICE) > 0 && onDevice] : [onDevice, onHost]
  // Unannotated time of the step does not apply to a selected phase.
  const unnamed = phase || isStep ? 0 : 1 - nestedShare(tree, root, value)
  return (
    <HeadlineCard label="Answer" className={css.answer}>
      <HeadlineSentence severity="info">
        <Name row={row} /> is the {isStep ? 'only' : 'largest'} phase: {first}
        {second && <>, {second}</>}
        {!divided && number('calls') > 1 && ` in ${counted(number('calls'), 'call')}`}
        {device && number('phase_idle_ns') > 0.01 * number(HOST) && (
          <>
            ; during this time, the {word} is idle for {time(row, 'phase_idle_ns')}
          </>
        )}
        .
        {inner >= 0 && (
          <>
            {' '}
            Its largest part is <Name row={tree.rows[inner]} /> ({time(tree.rows[inner], value)}).
          </>
        )}
        {unnamed > UNNAMED && (
          <>
            {' '}
            <Bold value={unnamed} unit="ratio" /> of {ofDevice ? word : 'CPU'} time in{' '}
            {step ? 'the steps' : <Name row={tree.rows[root]} />} is not annotated.
            {naming && ` ${naming}`}
          </>
        )}
        {number('phase_threads') > 1 &&
          ` It ran on ${number('phase_threads')} threads: CPU times are summed over threads; ${word} time counts once.`}
      </HeadlineSentence>
    </HeadlineCard>
  )
}

const Bold = ({ value, unit }: { value: number; unit: Unit }) => (
  <b>
    <Value value={value} unit={unit} />
  </b>
)

const Name = ({ row }: { row: Row }) => (
  <b className={row.readable && row.readable !== row.phase ? undefined : textCss.mono} title={String(row.phase)}>
    {shortenMiddle(String(row.readable ?? row.phase), 80)}
  </b>
)

function SelectPhaseButton({ row, size }: { row: Row; size: 'sm' | 'compact-xs' }) {
  const { phase = '' } = useRoute()
  const same = phase === row.phase
  return (
    <Button
      size={size}
      variant="default"
      onClick={() => setRoute({ phase: same ? '' : String(row.phase), ...NO_ROW }, true)}
    >
      {same ? 'Show all phases' : 'Select this phase'}
    </Button>
  )
}

/** The pattern that groups names, applied with Enter or on blur. `names`: its result; null if invalid. */
function Pattern({ names }: { names: Figures | null }) {
  const route = useRoute()
  const [used, all, phases] = names?.figures.map((figure) => figure.value) ?? []
  const pattern = used ?? route.pattern ?? ''
  const [text, setText] = useState(String(pattern))
  useEffect(() => setText(String(pattern)), [pattern])
  const apply = (next: string) => {
    if (next !== String(pattern)) setRoute({ pattern: next, phase: '', ...NO_ROW }, true)
  }
  return (
    <Tooltip
      label={`Merges annotations whose names differ only in parts that match this regular expression (RE2)${names ? `: ${all} names, ${phases} phases` : ''}. Press Enter to apply.`}
    >
      <TextInput
        className={css.pattern}
        size="sm"
        aria-label="Counters in names (regular expression)"
        leftSection={<small className={textCss.mute}>Counters</small>}
        leftSectionWidth={74}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onBlur={() => apply(text)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') apply(text)
          if (event.key === 'Escape') setText(String(pattern))
        }}
        rightSection={
          route.pattern ? <CloseButton size="xs" label="Default pattern" onClick={() => apply('')} /> : undefined
        }
      />
    </Tooltip>
  )
}

const HEIGHT = 18

function Bars(props: {
  values: readonly number[]
  labels: readonly string[]
  noun: string
  category: string
  width: number
}) {
  const { values, labels, noun, category, width } = props
  const top = Math.max(...values, 0)
  const low = values.length > 0 ? Math.min(...values) : 0
  const each = Math.min(16, width / Math.max(values.length, 1))
  const text = `${format(low, 'ns')} to ${format(top, 'ns')} per ${noun}`
  return (
    <svg data-testid="bars" className={barsCss.bars} width={width} height={HEIGHT} role="img" aria-label={text}>
      <title>{text}</title>
      {top > 0 &&
        values.map((value, i) => {
          const height = Math.max(value > 0 ? 1 : 0, (value / top) * (HEIGHT - 1))
          return (
            <rect
              key={labels[i]}
              x={i * each}
              y={HEIGHT - height}
              width={Math.max(1, each - 2)}
              height={height}
              fill={categoryColor(category)}
            >
              <title>{`${noun} ${labels[i]}: ${format(value, 'ns')}`}</title>
            </rect>
          )
        })}
    </svg>
  )
}
