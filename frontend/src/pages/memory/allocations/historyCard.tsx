// Memory history: curves, blocks and the selected block.

import { Tooltip } from '@mantine/core'
import { type ReactNode, useCallback, useMemo, useRef } from 'react'
import { getView, type Query } from '../../../api/client'
import type { Bands, Figures, View } from '../../../api/payloads'
import type { BlockColoring } from '../../../canvas/blocks/colors'
import type { BlocksEngine, BlocksModel } from '../../../canvas/blocks/engine'
import type { HistoryAxis, HistoryLayer } from '../../../canvas/blocks/scene'
import { counted } from '../../../lib/format'
import { figureValue, payloadByName } from '../../../parts/payloadByName'
import { EditorSetting, StackFrames } from '../../../parts/stack'
import { useQuery, useView } from '../../../state/data'
import { setRoute, useRoute } from '../../../state/urlState'
import { Card, CloseButton, Placeholder, SignButtons, SmallButton } from '../../../widgets/basics'
import { BlocksCanvas } from '../../../widgets/blocksCanvas'
import { Choice, Switch } from '../../../widgets/choice'
import { FigureList } from '../../../widgets/figures'
import { ProblemPanel } from '../../../widgets/problem'
import { HistoryCurves } from './historyCurves'
import { historyMarks } from './historyMarks'
import { BlocksKey, MomentFigures } from './historySide'
import { NO_WINDOW, useBlocks, useHistoryWindow } from './useHistory'
import frameCss from '../../../parts/viewFrame.module.css'
import textCss from '../../../widgets/text.module.css'
import blockPanelCss from './blockPanel.module.css'
import css from './historyCard.module.css'

export const EVENTS = 'history_events'
const LAYERS: { value: HistoryLayer; label: string }[] = [
  { value: '', label: 'Blocks' },
  { value: 'pools', label: 'Private pools' },
  { value: 'segments', label: 'Segments' },
]

/** Columns of the blocks table by colouring. */
const COLUMNS: Record<BlockColoring, string> = {
  stack: 'allocation_line',
  line: 'allocation_line',
  module: 'block_module',
  category: 'memory_category',
}

interface ColorChoice {
  value: BlockColoring
  label: string
  missing: string
}

const colorsOf = (head: Bands): ColorChoice[] => [
  { value: 'stack', label: 'Stack', missing: '' },
  { value: 'line', label: 'Line', missing: '' },
  {
    value: 'module',
    label: 'Module',
    missing: head.modules.some(Boolean) ? '' : 'No visible block has a module in its stack',
  },
  {
    value: 'category',
    label: 'Category',
    missing: head.categories.some(Boolean) ? '' : 'No visible block has a category',
  },
]

interface CardProps {
  view: View
  base: Query
  onBlocks: (where: string) => void
  blockNote: (block: Figures) => ReactNode
}

/** `onBlocks` filters the blocks table; `blockNote` adds facts about a block. */
export function HistoryCard(props: CardProps) {
  const { base } = props
  const route = useRoute()
  const axis: HistoryAxis = route.axis === 'time' ? 'time' : 'events'
  const { detail = '' } = route
  const layer = LAYERS.find(({ value }) => value === route.layer)?.value ?? ''
  const query = useQuery(base, { axis, detail, layer })
  const engine = useRef<BlocksEngine>(null)
  const { model, problem, busy } = useBlocks(query, axis, layer, () => engine.current?.redraw())
  if (!model) return problem ? <ProblemPanel problem={problem} /> : <Placeholder height={500} />
  return (
    <>
      {problem && <ProblemPanel problem={problem} />}
      <Drawn {...props} axis={axis} model={model} busy={busy} engine={engine} />
    </>
  )
}

function Drawn(
  props: CardProps & {
    axis: HistoryAxis
    model: BlocksModel
    busy: boolean
    engine: React.RefObject<BlocksEngine | null>
  },
) {
  const { view, base, axis, model, busy, engine, onBlocks, blockNote } = props
  const route = useRoute()
  const choices = colorsOf(model.head)
  const told = choices.filter(({ missing }) => missing === '').map(({ value }) => value)
  // Derived categories say more than stacks.
  const usual = told.includes('category') ? 'category' : 'stack'
  const colors = told.find((value) => value === route.color) ?? usual
  const window = useHistoryWindow(axis, model.head.extent)
  const marks = useMemo(() => historyMarks(view, axis, route.at), [view, axis, route.at])
  const toMoment = useCallback((event: number) => setRoute({ at: String(event), row: '' }, true), [])
  // Blocks and segments have separate row numbers.
  const kind = model.layer === 'segments' ? 'segment' : 'block'
  const stackOf = useCallback(
    async (row: number, signal: AbortSignal) => {
      const answer = await getView('active_memory', { ...base, [kind]: row }, signal)
      const figures = answer.state === 'ready' ? payloadByName(answer.data, kind, 'figures')?.figures : undefined
      return String(figures?.find(({ metric }) => metric.key === 'allocation_stack')?.value ?? '')
    },
    [base, kind],
  )
  const events = figureValue(payloadByName(view, 'summary', 'figures'), EVENTS)
  const { start, end } = window.view
  const isWhole = start <= 0 && end >= model.head.extent
  const asked = route[kind] === undefined ? Number.NaN : Number(route[kind])
  const block = Number.isSafeInteger(asked) ? asked : null
  return (
    <Card
      title="Active memory"
      subtitle={typeof events === 'number' ? counted(events, 'event') : undefined}
      className={css.card}
      actions={
        <span className={css.actions}>
          <Switch
            label="Axis"
            value={axis}
            disabled={!model.head.has_times}
            onChange={(next) => setRoute({ ...NO_WINDOW, axis: next === 'time' ? next : '' }, true)}
            options={{ events: 'Events', time: 'Time' }}
          />
          <Choice
            label="Show as"
            value={model.layer}
            onChange={(next) => setRoute({ layer: next })}
            options={LAYERS.filter(({ value }) => value !== 'pools' || model.head.has_private_pools)}
          />
          <Switch
            label="Color by"
            value={colors}
            onChange={(next) => setRoute({ color: next === usual ? '' : next })}
            options={choices.map(({ value, label, missing }) => ({
              value,
              disabled: missing !== '',
              label: missing ? (
                <Tooltip label={missing}>
                  <span>{label}</span>
                </Tooltip>
              ) : (
                label
              ),
            }))}
          />
          <Moves engine={engine} isWhole={isWhole} onMoment={toMoment} />
        </span>
      }
    >
      <div className={css.grid}>
        <HistoryCurves
          base={base}
          axis={axis}
          start={start}
          end={end}
          marks={marks}
          hasKey={block === null && marks.moment === null}
          engine={engine}
        />
        <div className={css.bands} aria-busy={busy}>
          <BlocksCanvas
            model={model}
            view={window.view}
            lastSent={window.lastSent}
            colors={colors}
            marks={marks}
            selected={block}
            onView={window.onView}
            onUndo={window.undo}
            onPick={(row) => setRoute({ [kind]: row === null ? '' : String(row) })}
            onMoment={toMoment}
            stackOf={stackOf}
            engine={engine}
          />
        </div>
        <div className={block === null && marks.moment === null ? css.side : `${css.side} ${css.tall}`}>
          <div className={css.scroll}>
            {(block !== null || marks.moment !== null) && (
              <div className={css.panels}>
                {block !== null && (
                  <BlockPanel
                    base={base}
                    kind={kind}
                    row={block}
                    onBlocks={onBlocks}
                    blockNote={blockNote}
                    onClose={() => setRoute({ [kind]: '' })}
                  />
                )}
                {marks.moment !== null && <MomentFigures view={view} />}
              </div>
            )}
            <div className={css.keys}>
              <BlocksKey
                engine={engine}
                asked={busy ? null : `${start} ${end} ${colors} ${axis} ${route.detail} ${model.layer}`}
                marks={marks}
                // Segments have their own page.
                onPick={kind === 'block' ? (label) => onBlocks(`${COLUMNS[colors]}:${label}`) : undefined}
                hasEnvelopes={model.head.envelopes.length > 0}
              />
            </div>
          </div>
        </div>
      </div>
    </Card>
  )
}

function Moves(props: {
  engine: React.RefObject<BlocksEngine | null>
  isWhole: boolean
  onMoment: (event: number) => void
}) {
  const { engine, isWhole, onMoment } = props
  const buttons: [string, string, () => void, boolean][] = [
    ['Earlier', '‹', () => engine.current?.pan(-0.25), !isWhole],
    ['Later', '›', () => engine.current?.pan(0.25), !isWhole],
    ['Zoom in', '+', () => engine.current?.zoom(0.5), true],
    ['Zoom out', '−', () => engine.current?.zoom(2), !isWhole],
    ['Show everything', '↺', () => engine.current?.reset(), true],
  ]
  return (
    <span className={textCss.row}>
      <SignButtons buttons={buttons} />
      <Tooltip label="Show memory at the middle of the chart (Shift-click or M on the chart)">
        <SmallButton
          className={css.wide}
          onClick={() => {
            const event = engine.current?.pointed() ?? null
            if (event !== null) onMoment(event)
          }}
        >
          Show memory at this event
        </SmallButton>
      </Tooltip>
    </span>
  )
}

const STACK = 'allocation_stack'
const FIRST = ['block_size_bytes', 'memory_category', 'allocation_line', 'life_ns']

function BlockPanel(props: {
  base: Query
  kind: 'block' | 'segment'
  row: number
  onBlocks: (where: string) => void
  onClose: () => void
  blockNote: (block: Figures) => ReactNode
}) {
  const { base, kind, row, onBlocks, onClose, blockNote } = props
  const title = kind === 'block' ? 'Block' : 'Segment'
  const resource = useView('active_memory', { ...base, [kind]: row })
  const payload = resource.data && payloadByName(resource.data, kind, 'figures')
  const stack = figureValue(payload, STACK)
  const known =
    payload?.figures.filter(({ metric, value }) => metric.key !== STACK && value !== null && value !== '') ?? []
  return (
    <section aria-label={title}>
      <div className={blockPanelCss.head}>
        <b>
          {title} {row.toLocaleString('en-US')}
        </b>
        <span className={textCss.row}>
          {kind === 'block' && <SmallButton onClick={() => onBlocks(`block_row:${row}`)}>Show in table</SmallButton>}
          <EditorSetting />
          <CloseButton label={`Close ${kind}`} onClick={onClose} />
        </span>
      </div>
      {resource.problem && <ProblemPanel problem={resource.problem} />}
      {!payload && !resource.problem && <Placeholder height={120} />}
      {payload && (
        <div data-testid="block" className={resource.busy ? frameCss.stale : undefined}>
          <FigureList figures={known.filter(({ metric }) => FIRST.includes(metric.key))} exact />
          {typeof stack === 'string' && stack !== '' ? (
            <div className={blockPanelCss.stack}>
              <StackFrames stack={stack} />
            </div>
          ) : (
            <p className={textCss.none}>The snapshot has no stack for this block.</p>
          )}
          {kind === 'block' && blockNote(payload)}
          <FigureList figures={known.filter(({ metric }) => !FIRST.includes(metric.key))} exact />
        </div>
      )}
    </section>
  )
}
