// Compare: changes from a baseline to the open profile. In one file: the parts of one page, each used once.

import { Button } from '@mantine/core'
import { useCallback, useEffect, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Breakdown, Catalog, Link, Profile, Tree, View } from '../../api/payloads'
import { defaultBaseline, hasOtherProfile, resolveBaseline } from '../../lib/baselines'
import { isWithinNoise } from '../../lib/color'
import { deviceWord } from '../../lib/deviceWords'
import { format } from '../../lib/format'
import { type Address, addressText, ofModel, sameAddress, spanOf, spanVersion } from '../../lib/profiles'
import { parseSteps } from '../../lib/stepSelection'
import { treeSequence } from '../../lib/treeOrder'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useProfile, useView } from '../../state/data'
import { followLink } from '../../state/links'
import type { Values } from '../../state/tensorboardHash'
import { setRoute, TOTAL, useRoute } from '../../state/urlState'
import { Card, LinkButton, Placeholder } from '../../widgets/basics'
import { CaptureProblem } from '../../widgets/capturePicker'
import { Switch } from '../../widgets/choice'
import { Headline } from '../../widgets/figures'
import { NoticeList, Sentence } from '../../widgets/notices'
import { ProblemPanel } from '../../widgets/problem'
import { FailedPanel, LoadingPanel } from '../../widgets/profileState'
import { SmallTable } from '../../widgets/smallTable'
import { TreeTable } from '../../widgets/tree'
import { isSmall, Waterfall, WaterfallTable } from '../../widgets/waterfall'
import { WindowBar } from '../../widgets/windowBar'
import { Candidates } from './candidates'
import { baselineState, CompareBar, MEASURES, setBaseline } from './compareBar'
import { ComparedRow, type Side } from './comparedRow'
import { diffTables, haveOtherVendors } from './diffTables'
import { StepTimes } from './stepTimes'
import basicsCss from '../../widgets/basics.module.css'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './diff.module.css'

const CHOSEN = ['steps', 'window', 'capture'] as const
/** Rule of the finding about training stages that changed in opposite directions. */
const PHASES = 'phases_changed'
/** State of the table that a link to rows replaces. */
const NO_FILTERS: Values = { group: '', where: '', search: '', sort: '', desc: '', cols: '', row: '' }
const ROWS = 'compared-rows'
const TREE = 'compared-calls'
const WITHOUT_KIND = ['node_kind']
/** Most bars that fit beside the settings. */
const MOST_NARROW = 7
const hasDevice = (profile: Profile | null) =>
  profile?.views.some((view) => view.id === 'kernels' && view.available) ?? false

/** The compared time; without one in the URL the server chooses. */
function measureOf(route: Values, exp: Profile, base: Profile | null) {
  const measures = MEASURES.filter(({ value }) => !value.startsWith('device') || hasDevice(exp) || hasDevice(base))
  const measure = measures.find(({ value }) => value === route.measure)?.value ?? ''
  return { measures, measure }
}

const measureLabel = (view: View) => String(figureValue(payloadByName(view, 'compared', 'figures'), 'measure') ?? '')

export function Diff({ catalog: all, profile, base }: PageProps) {
  const route = useRoute()
  const catalog = useMemo(() => ofModel(all, profile.model), [all, profile.model])
  const { run, worker, span } = profile
  const exp = useMemo<Address>(() => ({ run, worker, span }), [run, worker, span])
  const baseline = useMemo(() => resolveBaseline(catalog, route, exp), [catalog, route, exp])
  const baseWindow = route.base_window ?? ''
  const baseCapture = route.base_capture ?? ''
  const ask = useProfile(baseline, spanVersion(spanOf(catalog, baseline)), baseWindow, baseCapture)
  const steps = String(base.steps ?? '')
  const window = String(base.window ?? '')
  const capture = String(base.capture ?? '')
  const baseSteps = route.base_steps ?? ''
  const named = Boolean(route.base_run || route.base_worker || route.base_span)
  // Store the default baseline, so that a link keeps it when new runs arrive.
  useEffect(() => {
    if (baseline && !named) setRoute(baselineState(baseline, baseSteps, baseWindow, baseCapture))
  }, [baseline, named, baseSteps, baseWindow, baseCapture])
  if (!baseline && !named && !hasOtherProfile(catalog, exp))
    return <NoBaseline profile={profile} exp={exp} catalog={catalog} />
  return (
    <div className={css.diff}>
      <CompareBar
        catalog={catalog}
        expProfile={profile}
        exp={exp}
        steps={steps}
        baseline={baseline}
        profile={ask.profile}
        reload={ask.reload}
        {...measureOf(route, profile, ask.profile)}
      />
      {baseline && ask.profile && (
        <WindowBar
          profile={ask.profile}
          side="Baseline"
          onWindow={(next) => setBaseline(baseline, '', next, baseCapture)}
        />
      )}
      {ask.profile && <CaptureProblem profile={ask.profile} side="Baseline" />}
      {!baseline && !named ? (
        <Question catalog={catalog} exp={exp} />
      ) : !baseline ? (
        <MissingBaseline
          catalog={catalog}
          isOther={resolveBaseline(all, route, exp) !== null}
          route={route}
          exp={exp}
        />
      ) : ask.problem ? (
        <ProblemPanel problem={ask.problem} title={`Baseline: ${addressText(baseline)}`} />
      ) : ask.profile?.state === 'failed' ? (
        <FailedPanel profile={ask.profile} onRetry={ask.reload} side="Baseline" />
      ) : ask.profile?.state === 'ready' ? (
        <Compared
          catalog={catalog}
          exp={{ ...exp, window, capture, steps }}
          base={{ ...baseline, window: baseWindow, capture: baseCapture, steps: baseSteps }}
          expProfile={profile}
          baseProfile={ask.profile}
        />
      ) : (
        <LoadingPanel profile={ask.profile} span={spanOf(catalog, baseline)} side="Baseline" />
      )}
    </div>
  )
}

function NoBaseline({ profile, exp, catalog }: { profile: Profile; exp: Address; catalog: Catalog }) {
  return (
    <div className={basicsCss.panel}>
      <h2>No second profile to compare with</h2>
      <p>
        <code>{catalog.logdir}</code> contains only {addressText(exp)}. Record a second profile into another folder of
        the log directory. The page finds it automatically.
      </p>
      {profile.steps.length > 1 && (
        <p>
          <Button size="xs" variant="default" onClick={() => setBaseline(exp, profile.steps[0].label)}>
            Compare with step {profile.steps[0].label}
          </Button>
        </p>
      )}
    </div>
  )
}

const Question = ({ catalog, exp }: { catalog: Catalog; exp: Address }) => (
  <div className={basicsCss.panel}>
    <h2>Choose a baseline</h2>
    <p>No similar profile was found. Choose a baseline:</p>
    <Candidates catalog={catalog} exp={exp} label="Suggested baselines" />
  </div>
)

/** The baseline that is named is not there, or is about something else (`isOther`). */
function MissingBaseline(props: { catalog: Catalog; isOther: boolean; route: Values; exp: Address }) {
  const { catalog, isOther, route, exp } = props
  const wanted = [route.base_run, route.base_worker, route.base_span].filter(Boolean).join(' · ')
  const other = defaultBaseline(catalog, exp)
  return (
    <ProblemPanel
      title="Baseline"
      problem={{
        what: isOther
          ? `${wanted} is another type of profile and cannot be compared with this one.`
          : `There is no profile ${wanted} in the log directory.`,
        where: catalog.logdir,
        do: isOther
          ? 'Choose another baseline above.'
          : 'The run was moved or deleted, or the link is for another log directory. Choose another baseline above.',
      }}
      action={
        <Button size="xs" onClick={() => setBaseline(null)}>
          {other ? `Compare with ${addressText(other)}` : 'Clear the baseline'}
        </Button>
      }
    />
  )
}

function Compared(props: { catalog: Catalog; exp: Side; base: Side; expProfile: Profile; baseProfile: Profile }) {
  const { catalog, expProfile, baseProfile } = props
  const route = useRoute()
  const key = JSON.stringify([props.base, props.exp])
  // biome-ignore lint/correctness/useExhaustiveDependencies: the sides are new objects with every picture
  const [base, exp] = useMemo<[Side, Side]>(() => [props.base, props.exp], [key])
  const { measure } = measureOf(route, expProfile, baseProfile)
  const per = route.per === TOTAL ? TOTAL : ''
  const query = useMemo<Query>(
    () => ({ ...exp, ...baselineState(base, base.steps, base.window, base.capture), measure, per }),
    [exp, base, measure, per],
  )
  const labels = baseProfile.steps.map((step) => step.label)
  const lost = base.steps !== '' && parseSteps(base.steps, labels).size === 0
  const resource = useView('diff', query, !lost)
  const allSteps = (
    <Button size="xs" onClick={() => setRoute({ steps: '', base_steps: '' }, true)}>
      Compare all steps
    </Button>
  )
  if (lost) {
    return (
      <ProblemPanel
        title={`Baseline: ${addressText(base)}`}
        problem={{
          what: `The baseline has no step ${base.steps}.`,
          where: 'baseline steps',
          do: labels.length > 0 ? `Available steps: ${labels.join(', ')}.` : 'The baseline has no recorded steps.',
        }}
        action={allSteps}
      />
    )
  }
  const other = defaultBaseline(catalog, exp)
  return (
    <>
      {sameAddress(base, exp) && CHOSEN.every((key) => base[key] === exp[key]) && (
        <p className={textCss.none} role="status">
          Baseline and experiment are the same profile and steps. Select different steps or a mode on either side.{' '}
          {other && <LinkButton onClick={() => setBaseline(other)}>Compare with {addressText(other)}</LinkButton>}
        </p>
      )}
      <ViewFrame
        resource={resource}
        bones={<Reading fraction={resource.fraction} />}
        action={base.steps || exp.steps ? allSteps : undefined}
      >
        {(view) => <Page view={view} />}
      </ViewFrame>
      {resource.data && (
        <div id={ROWS} className={css.target}>
          <TableSection
            view="diff"
            base={query}
            groups={diffTables(resource.data)}
            placeholder="Search names, text or /regex/"
            detail={(row, table) => <ComparedRow row={row} table={table} query={query} base={base} exp={exp} />}
          />
        </div>
      )}
    </>
  )
}

function Reading({ fraction }: { fraction: number | null }) {
  return (
    <div className={layoutCss.column}>
      {fraction !== null && (
        <p className={textCss.none} role="status">
          Reading both traces: {format(fraction, 'ratio')}
        </p>
      )}
      <Placeholder height={78} />
      <Placeholder height={300} />
      <Placeholder height={300} />
    </div>
  )
}

function Page({ view }: { view: View }) {
  const headline = payloadByName(view, 'headline', 'figures')
  const findings = payloadByName(view, 'findings', 'notices')?.notices ?? []
  const waterfall = payloadByName(view, 'waterfall', 'breakdown')
  const isSame = waterfall && (isSmall(waterfall, waterfall.total) || isWithinNoise(waterfall.interval))
  const noise = isSame ? 'delta_step_ns' : ''
  const tree = payloadByName(view, 'call_tree', 'tree')
  const settings = payloadByName(view, 'settings', 'table')
  const first = headline ? findings[0] : undefined
  const phases = findings.find(({ rule }) => rule === PHASES)
  const others = findings.filter((notice) => notice !== first && notice !== phases)
  const differs = settings !== null && settings.total_rows > 0
  const mind = others.length > 0 && (
    <Card title="Before you compare" className={layoutCss.span12}>
      <NoticeList notices={others} onLink={followLink} none="" />
    </Card>
  )
  // Between devices of different vendors, notices explain the times below.
  const isFirst = haveOtherVendors(view)
  const aside = (mind && !isFirst) || differs
  // Names of many bars need the full width.
  const narrow = aside && waterfall !== null && waterfall.parts.length <= MOST_NARROW
  return (
    <div className={layoutCss.grid}>
      {headline && (
        <HeadlineCard>
          <StepTimes view={view}>
            {first && (
              <HeadlineSentence severity={first.severity}>
                <Sentence notice={first} text={first.text} noise={noise} />{' '}
                {first.todo && <Sentence notice={first} text={first.todo} />}
              </HeadlineSentence>
            )}
            {phases && (
              <HeadlineSentence severity={phases.severity}>
                <Sentence notice={phases} text={phases.text} />
              </HeadlineSentence>
            )}
            <Headline figures={headline.figures} noise={noise} />
          </StepTimes>
        </HeadlineCard>
      )}
      {isFirst && mind}
      {waterfall && <WaterfallCard payload={waterfall} wide={!narrow} />}
      {aside && (
        <div className={`${layoutCss.column} ${narrow ? css.aside : `${layoutCss.span12} ${css.last}`}`}>
          {!isFirst && mind}
          {differs && (
            <Card title={settings.title} className={css.settings}>
              <SmallTable table={settings} />
            </Card>
          )}
        </div>
      )}
      {tree && <TreeCard tree={tree} measure={measureLabel(view)} />}
    </div>
  )
}

/** Shows the rows of a part of the step: its table, or the call tree where no table has them. */
function showRows({ params }: Link): void {
  setRoute({ ...NO_FILTERS, ...params }, true)
  document.getElementById(params.group ? ROWS : TREE)?.scrollIntoView({ block: 'start' })
}

function WaterfallCard({ payload, wide }: { payload: Breakdown; wide: boolean }) {
  const [form, setForm] = useState('chart')
  return (
    <Card
      className={wide ? layoutCss.span12 : css.main}
      title={payload.title}
      subtitle={payload.subtitle}
      actions={
        <Switch
          value={form}
          onChange={setForm}
          label={`View of ${payload.title}`}
          options={{ chart: 'Chart', table: 'Table' }}
        />
      }
    >
      {form === 'chart' ? (
        <div className={wide ? layoutCss.chart : `${layoutCss.chart} ${css.bars}`}>
          <Waterfall payload={payload} height="100%" onLink={showRows} />
        </div>
      ) : (
        <WaterfallTable payload={payload} onLink={showRows} />
      )}
    </Card>
  )
}

const NO_NODES: ReadonlySet<number> = new Set()
const PAIR_PX = 150

function TreeCard({ tree, measure }: { tree: Tree; measure: string }) {
  const route = useRoute()
  const device = measure.startsWith('device')
  const word = device ? deviceWord() : 'CPU'
  const metric = tree.columns.find((column) => column.metric.key === 'delta_ns')?.metric
  const isByChange = route.order === 'change'
  const [opened, setOpened] = useState<{ tree: Tree; nodes: ReadonlySet<number> }>({ tree, nodes: NO_NODES })
  const open = opened.tree === tree ? opened.nodes : NO_NODES
  const [selected, onSelect] = useState(-1)
  const numbers = useCallback((key: string) => tree.rows.map((row) => Number(row[key] ?? 0)), [tree])
  const sequence = useMemo(
    () => treeSequence(tree.parent, [], numbers('delta_ns').map(Math.abs), isByChange ? 'value' : ''),
    [tree, numbers, isByChange],
  )
  const most = useMemo(() => Math.max(...numbers('base_ns'), ...numbers('exp_ns'), 1e-9), [numbers])
  return (
    <Card
      className={layoutCss.span12}
      title={tree.title}
      subtitle={`${word} time of a call, including nested calls, ${metric?.window ?? ''}`}
      actions={
        <Switch
          value={isByChange ? 'change' : 'tree'}
          onChange={(next) => setRoute({ order: next === 'tree' ? '' : next })}
          label="Order of the calls"
          options={{ tree: 'Call order', change: 'Largest change' }}
        />
      }
    >
      {tree.rows.length > 0 ? (
        <div id={TREE} data-testid="call-tree" className={`${css.calls} ${css.target}`}>
          <TreeTable
            tree={tree}
            without={WITHOUT_KIND}
            open={open}
            onOpen={(nodes) => setOpened({ tree, nodes })}
            selected={selected < tree.rows.length ? selected : -1}
            onSelect={onSelect}
            match={null}
            sequence={sequence}
            extra={{
              title: 'Time',
              help: 'Baseline above, experiment below',
              width: PAIR_PX,
              cell: (row) => (
                <span aria-hidden="true">
                  <i
                    className={`${css.pair} ${css.base}`}
                    style={{ width: `${(Number(row.base_ns) / most) * 100}%` }}
                  />
                  <i className={`${css.pair} ${css.exp}`} style={{ width: `${(Number(row.exp_ns) / most) * 100}%` }} />
                </span>
              ),
            }}
          />
        </div>
      ) : (
        <p className={textCss.none}>
          No calls with {word} time on either side.{' '}
          {device && (
            <LinkButton onClick={() => setRoute({ measure: 'host_total_ns' }, true)}>Show CPU time</LinkButton>
          )}
        </p>
      )}
    </Card>
  )
}
