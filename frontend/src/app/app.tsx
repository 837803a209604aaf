// The page frame: profile, state and the open view. In one file: all parts share the URL and the open profile.
import { Alert, Button, MantineProvider } from '@mantine/core'
import { Component, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { PER_STEP, type Query } from '../api/client'
import type { Catalog, Problem, Profile, SpanInfo, ViewInfo } from '../api/payloads'
import { isTyping } from '../canvas/typing'
import { setDeviceWord } from '../lib/deviceWords'
import { placeOf } from '../lib/exportNames'
import { setPathMappings } from '../lib/localPaths'
import { shortenMiddle } from '../lib/names'
import { pagesOf } from '../lib/pages'
import { PER_STEP_VIEWS } from '../lib/perStep'
import {
  type Address,
  isAnsweredByOthers,
  missingPart,
  offeredViews,
  openedView,
  requestAddress,
  resolveAddress,
  sameAddress,
  spanOf,
  spanVersion,
  viewInfo,
  wantedAddress,
} from '../lib/profiles'
import { parseSteps, writeSteps } from '../lib/stepSelection'
import { Overview } from '../pages/overview/overview'
import type { PageProps } from '../parts/page'
import { useActivity, useFirstSettle } from '../state/activity'
import { useCatalog, useProfile } from '../state/data'
import { openProfile, readRoute, setDefaultView, setRoute, TOTAL, useRoute } from '../state/urlState'
import { LinkButton, Placeholder } from '../widgets/basics'
import { CaptureProblem } from '../widgets/capturePicker'
import { ProblemPanel, ReportedProblem } from '../widgets/problem'
import { FailedPanel, LoadingPanel } from '../widgets/profileState'
import { usePrinting } from '../widgets/usePrinting'
import { WindowBar } from '../widgets/windowBar'
import { Banner, FileBanners, MissingView } from './banners'
import { DropNotes, OpenFileButton, useDroppedFiles } from './dropFiles'
import { EmptyPanel, SkippedFilesButton } from './emptyStates'
import { Nav, openPage, PageTabs } from './nav'
import { QualityDrawer } from './quality'
import { HelpModal } from './shortcutList'
import { theme, useScheme } from './theme'
import { TopBar } from './topbar'
import { Tour, useTour } from './tour'
import textCss from '../widgets/text.module.css'
import css from './app.module.css'

/** All pages but Overview, which is usually the first. */
let pages: typeof import('../pages') | null = null
async function loadPages() {
  pages ??= await import('../pages')
  return pages
}
/** The other pages are loaded so long after the profile is ready. */
const PRELOAD_MS = 500

export function App() {
  const scheme = useScheme()
  const isPrinting = usePrinting()
  return (
    <MantineProvider theme={theme} forceColorScheme={isPrinting ? 'light' : scheme}>
      <Frame />
    </MantineProvider>
  )
}

function Frame() {
  const route = useRoute()
  const { catalog, problem: offline, refresh } = useCatalog()
  const dropped = useDroppedFiles(catalog, refresh)
  // With cached profiles a lost store is a remark; without, NoProfile reports it.
  const troubles = !catalog ? [] : offline ? [offline] : catalog.runs.length > 0 ? catalog.problems : []
  const address = useMemo(() => resolveAddress(catalog, route), [catalog, route])
  const wanted = wantedAddress(catalog, route)
  const span = spanOf(catalog, address)
  const part = route.window ?? ''
  const capture = route.capture ?? ''
  const asked = requestAddress(catalog, address, wanted)
  const { profile: read, problem, reload } = useProfile(asked, spanVersion(span), part, capture, route.view)
  const other = read?.worker && !sameAddress(read, asked) ? read : null
  useEffect(() => {
    // A merged file becomes one worker per rank once it is read.
    if (!other) return
    if (route.worker) setRoute({ run: other.run, worker: other.worker, span: other.span })
    refresh()
  }, [other, route.worker, refresh])
  const profile = useMemo(() => offeredViews(read, catalog, address), [read, catalog, address])
  const [quality, setQuality] = useState(false)
  const [help, setHelp] = useState(false)
  useShortcuts(profile, () => setHelp(true))
  useFirstSettle()
  useEffect(() => {
    // TensorBoard's reload button.
    const onMessage = (event: MessageEvent) => {
      if (event.source === window.parent && event.origin === window.location.origin) refresh()
    }
    window.addEventListener('message', onMessage)
    return () => window.removeEventListener('message', onMessage)
  }, [refresh])
  if (catalog) setPathMappings(catalog.path_mappings)
  if (profile) setDeviceWord(profile.device_word)
  const view = openedView(profile, route.view)
  const isReady = profile?.state === 'ready'
  const tour = useTour(isReady, view)
  useEffect(() => {
    if (!profile) return
    setDefaultView(profile.default_view)
  }, [profile])
  useEffect(() => {
    if (view && view !== 'overview') loadPages().catch(() => {})
    if (!isReady) return
    const timer = window.setTimeout(() => loadPages().catch(() => {}), PRELOAD_MS)
    return () => window.clearTimeout(timer)
  }, [view, isReady])
  // Before effects of the view, which may scroll to a row.
  // biome-ignore lint/correctness/useExhaustiveDependencies: each view starts at its top
  useLayoutEffect(scrollUp, [view])
  const steps = route.steps ?? ''
  const key = address ? JSON.stringify({ ...address, window: part, capture }) : ''
  const { phase = '', pattern = '' } = route
  const all = profile?.steps
  const isPerStep = route.per !== TOTAL
  const counted = useMemo(() => {
    if (!isPerStep || !all || all.length < 2 || !PER_STEP_VIEWS.has(view)) return { steps }
    const labels = all.map(({ label }) => label)
    const chosen = steps || writeSteps(new Set(labels), labels)
    return { steps: chosen, [PER_STEP]: parseSteps(chosen, labels).size }
  }, [steps, all, view, isPerStep])
  const base = useMemo<Query>(
    () => ({ ...(key ? (JSON.parse(key) as Query) : {}), ...counted, phase, pattern }),
    [key, counted, phase, pattern],
  )
  useEffect(() => {
    const title = viewInfo(profile, view)?.title ?? view
    document.title = address ? `${title} · ${address.run} · Torch Trace` : 'Torch Trace'
  }, [view, profile, address])

  return (
    <div className={css.app}>
      {/* biome-ignore lint/a11y/useValidAnchor: a skip link is a link; only the address must stay as it is */}
      <a className={css.skip} href="#main" onClick={skip}>
        Skip to the view
      </a>
      <TopBar
        catalog={catalog}
        address={address}
        wanted={wanted}
        profile={profile}
        base={base}
        steps={steps}
        title={viewInfo(profile, view)?.title ?? view}
        view={view}
        reload={reload}
        onQuality={() => setQuality(true)}
        onHelp={() => setHelp(true)}
      />
      <Nav
        views={profile?.views ?? []}
        active={view}
        foot={
          catalog &&
          catalog.runs.length > 0 && (
            <>
              <OpenFileButton files={dropped} />
              <SkippedFilesButton catalog={catalog} />
            </>
          )
        }
        onActive={scrollUp}
      />
      <main id="main" className={css.main} tabIndex={-1} aria-label={viewInfo(profile, view)?.title ?? 'View'}>
        <h1 className={textCss.sr}>{viewInfo(profile, view)?.title ?? 'Torch Trace'}</h1>
        <PrintHead title={viewInfo(profile, view)?.title ?? ''} base={base} steps={steps} />
        <DropNotes files={dropped} />
        {troubles.map((trouble) => (
          <Banner key={trouble.where} testid="offline">
            {trouble.where && <span className={textCss.mono}>{trouble.where}: </span>}
            {trouble.what} {trouble.do}
          </Banner>
        ))}
        <FileBanners profile={profile} span={span} onMore={() => setQuality(true)} />
        <PageTabs views={profile?.views ?? []} active={view} />
        {phase && <NotLimited phase={phase} view={viewInfo(profile, view)} />}
        {profile && <WindowBar profile={profile} onWindow={(next) => openProfile({ window: next, capture })} />}
        {profile && <CaptureProblem profile={profile} />}
        <ReportedProblem value={troubles.includes(offline as Problem) ? offline : null}>
          <div className={css.view}>
            <Boundary key={`${key} ${view}`}>
              {catalog === null ? (
                offline ? (
                  <ProblemPanel problem={offline} />
                ) : (
                  <Placeholder height={300} />
                )
              ) : address === null ? (
                <NoProfile catalog={catalog} wanted={wanted} />
              ) : (
                <Body
                  view={view}
                  profile={profile}
                  problem={problem}
                  span={span}
                  catalog={catalog}
                  base={base}
                  reload={reload}
                />
              )}
            </Boundary>
          </div>
        </ReportedProblem>
      </main>
      {profile && isReady && (
        <QualityDrawer open={quality} onClose={() => setQuality(false)} profile={profile} span={span} base={base} />
      )}
      <HelpModal open={help} onClose={() => setHelp(false)} onTour={tour.start} />
      {tour.open && !help && <Tour onEnd={tour.end} />}
    </div>
  )
}

/** On paper, what the bar and the navigation say on the screen. */
const PrintHead = ({ title, base, steps }: { title: string; base: Query; steps: string }) => (
  <div className={css.printHead} aria-hidden="true">
    <b>{title}</b>
    {placeOf({ ...base, steps }).map(([name, value]) => (
      <span key={name}>
        {name} {value}
      </span>
    ))}
    <span>Torch Trace</span>
  </div>
)

function NotLimited({ phase, view }: { phase: string; view: ViewInfo | undefined }) {
  if (!view?.available || !view.whole) return null
  return (
    <Alert color="gray" variant="light" data-testid="not-limited" className={css.offline} role="status">
      This view covers more than the phase <span className={textCss.mono}>{shortenMiddle(phase, 60)}</span>.{' '}
      {view.whole}
    </Alert>
  )
}

function scrollUp(): void {
  document.getElementById('main')?.scrollTo(0, 0)
}

function skip(event: React.MouseEvent): void {
  // The hash belongs to TensorBoard: move the focus only.
  event.preventDefault()
  document.getElementById('main')?.focus()
}

function Body(props: {
  view: string
  profile: Profile | null
  problem: Problem | null
  span: SpanInfo | null
  catalog: Catalog
  base: Query
  reload: () => void
}) {
  const { view, profile, problem, span, catalog, base, reload } = props
  const elsewhere = base.window ? (
    <Button size="xs" onClick={() => openProfile({ window: '' })}>
      Open from the start
    </Button>
  ) : undefined
  if (!profile)
    return problem ? <ProblemPanel problem={problem} action={elsewhere} /> : <LoadingPanel profile={null} span={span} />
  const View = view === 'overview' ? Overview : OtherPage
  const page = <View id={view} catalog={catalog} profile={profile} base={base} />
  if (profile.state === 'failed') {
    if (isAnsweredByOthers(view, catalog, profile)) return page
    return <FailedPanel profile={profile} onRetry={reload} action={elsewhere} />
  }
  if (profile.state !== 'ready') return <LoadingPanel profile={profile} span={span} />
  const info = viewInfo(profile, view)
  if (info && !info.available) return <MissingView info={info} profile={profile} />
  return page
}

/** Any other page. Not `lazy`: React delays what follows a fallback by 300 ms. */
function OtherPage(props: PageProps) {
  const [loaded, setLoaded] = useState(pages)
  const [problem, setProblem] = useState<unknown>(null)
  useActivity(loaded === null)
  useEffect(() => {
    if (!loaded) loadPages().then(setLoaded, setProblem)
  }, [loaded])
  // The boundary reports it.
  if (problem) throw problem
  return loaded ? <loaded.default {...props} /> : <Placeholder height="calc(100vh - 90px)" />
}

function NoProfile({ catalog, wanted }: { catalog: Catalog; wanted: Address }) {
  if (catalog.runs.length === 0) {
    return (
      <>
        {catalog.problems.map((problem) => (
          <ProblemPanel key={problem.where} problem={problem} />
        ))}
        {(catalog.problems.length === 0 || catalog.scanned_files > 0) && <EmptyPanel catalog={catalog} />}
      </>
    )
  }
  const missing = missingPart(catalog, wanted)
  const run = missing === 'run' ? '' : wanted.run
  return (
    <ProblemPanel
      problem={{
        what: `There is no profile ${[wanted.run, wanted.worker, wanted.span].filter(Boolean).join(' / ')} in the log directory.`,
        where: catalog.logdir,
        do: `The profile was moved or deleted, or the link is for another log directory. Choose another ${missing} above.`,
      }}
      action={
        <LinkButton onClick={() => openProfile({ run, worker: '', span: '' })}>
          Open the first profile{run && ' of this run'}
        </LinkButton>
      }
    />
  )
}

class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null }

  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render() {
    const { error } = this.state
    if (!error) return this.props.children
    return (
      <ProblemPanel
        problem={{
          what: 'An internal error occurred in this view.',
          where: `${error.message}\n${error.stack?.split('\n').slice(0, 4).join('\n') ?? ''}`,
          do: 'Choose another view or reload the page. If the error returns, report it with this text.',
        }}
      />
    )
  }
}

function stepBy(profile: Profile, by: number): void {
  const labels = profile.steps.map((step) => step.label)
  if (labels.length === 0) return
  const at = labels.indexOf(readRoute().steps ?? '')
  const next = at < 0 ? (by > 0 ? 0 : labels.length - 1) : Math.min(labels.length - 1, Math.max(0, at + by))
  setRoute({ steps: labels[next] }, true)
}

function useShortcuts(profile: Profile | null, onHelp: () => void): void {
  const latest = useRef({ profile, onHelp })
  latest.current = { profile, onHelp }
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      const { profile: open, onHelp: help } = latest.current
      if (event.key === '?') help()
      else if (event.key === '/') document.querySelector<HTMLInputElement>('input[data-search]')?.focus()
      else if (event.key === '[' && open) stepBy(open, -1)
      else if (event.key === ']' && open) stepBy(open, 1)
      else if (/^[1-9]$/.test(event.key) && open) {
        const page = pagesOf(open.views)[Number(event.key) - 1]
        if (page) openPage(page)
      } else return
      event.preventDefault()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
}
