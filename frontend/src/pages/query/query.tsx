// SQL over the events of the profile.
import { Button, NativeSelect } from '@mantine/core'
import { useEffect, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Profile, View } from '../../api/payloads'
import { counted } from '../../lib/format'
import type { Row } from '../../lib/tableRows'
import { NoticesCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { numberOf, payloadByName } from '../../parts/payloadByName'
import { TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useActivity } from '../../state/activity'
import { useQuery, useView } from '../../state/data'
import { timelineState } from '../../state/links'
import { openView, openViewOfProfile, setRoute, useRoute } from '../../state/urlState'
import { Card, Placeholder } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { Switch } from '../../widgets/choice'
import { EXAMPLES } from './examples'
import { schemaOf } from './schema'
import frameCss from '../../parts/viewFrame.module.css'
import textCss from '../../widgets/text.module.css'
import css from './query.module.css'

/** More than all tables have columns. */
const MAX_COLUMNS = 500
/** The columns of another query are others. */
const NO_TABLE_STATE = { row: '', sort: '', desc: '', cols: '', search: '', where: '' }
const RANKS = [
  { value: '', label: 'This rank' },
  { value: 'all', label: 'All ranks' },
]
const ROWS = [{ table: 'rows', label: 'Rows' }]
const TABLES = [{ table: 'rows', label: 'Tables and columns' }]

export function QueryPage({ base, catalog, profile }: PageProps) {
  const { query = '', ranks = '' } = useRoute()
  const { run, worker, span, window, capture } = base
  const place = useQuery({ run, worker, span, window, capture }, {})
  const schema = useView('sql', useQuery(place, { limit: MAX_COLUMNS }))
  const workers = catalog.runs.find(({ name }) => name === profile.run)?.workers ?? []
  const hasRanks = workers.filter(({ spans }) => spans.some(({ id }) => id === profile.span)).length > 1
  const asked = useQuery(place, { query, ranks: hasRanks ? ranks : '' })
  const resource = useView('sql', asked, query !== '')
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={schema} bones={200}>
        {(view) => <Ask view={view} query={query} ranks={hasRanks ? ranks : null} busy={resource.busy} />}
      </ViewFrame>
      {query === '' ? (
        <TableSection
          view="sql"
          base={place}
          groups={TABLES}
          placeholder="Search tables and columns, text or /regex/"
          detail={() => null}
        />
      ) : (
        <ViewFrame resource={resource} bones={300}>
          {(view) => <Result view={view} base={asked} profile={profile} />}
        </ViewFrame>
      )}
    </div>
  )
}

let editor: typeof import('./editor') | null = null

/** `ranks` is null if the run has one rank only. */
function Ask(props: { view: View; query: string; ranks: string | null; busy: boolean }) {
  const { view, query, ranks, busy } = props
  const [text, setText] = useState(query || EXAMPLES[0].query)
  const [loaded, setLoaded] = useState(editor)
  const schema = useMemo(() => schemaOf(payloadByName(view, 'rows', 'table'), ranks === 'all'), [view, ranks])
  const [problem, setProblem] = useState<unknown>(null)
  useActivity(loaded === null && problem === null)
  useEffect(() => {
    if (!loaded)
      import('./editor').then((found) => {
        editor = found
        setLoaded(found)
      }, setProblem)
  }, [loaded])
  // The boundary of the page reports it.
  if (problem) throw problem
  useEffect(() => {
    if (query) setText((old) => (old.trim() === query ? old : query))
  }, [query])
  const ask = (next: string) => setRoute({ ...NO_TABLE_STATE, query: next.trim() }, true)
  return (
    <Card
      title="Query"
      subtitle={`One SELECT over ${ranks === 'all' ? 'all ranks, with a column rank' : 'this recording'}. Times are nanoseconds, sizes are bytes.`}
      actions={
        <span className={textCss.row}>
          {ranks !== null && (
            <Switch
              label="Ranks of the query"
              value={ranks}
              options={RANKS}
              onChange={(next) => setRoute({ ...NO_TABLE_STATE, ranks: next }, true)}
            />
          )}
          <NativeSelect
            size="xs"
            aria-label="Examples"
            value=""
            onChange={({ currentTarget }) => {
              const example = EXAMPLES[Number(currentTarget.value)]
              setText(example.query)
              ask(example.query)
            }}
          >
            <option value="" disabled>
              Examples
            </option>
            {EXAMPLES.map(({ title }, i) => (
              <option key={title} value={i}>
                {title}
              </option>
            ))}
          </NativeSelect>
          {query !== '' && (
            <Button
              size="compact-sm"
              variant="default"
              onClick={() => setRoute({ ...NO_TABLE_STATE, query: '' }, true)}
            >
              Tables
            </Button>
          )}
          <Button size="compact-sm" loading={busy} onClick={() => ask(text)} title="Ctrl+Enter">
            Run
          </Button>
        </span>
      }
    >
      {loaded ? (
        <loaded.default value={text} schema={schema} onChange={setText} onRun={() => ask(text)} />
      ) : (
        <Placeholder height={120} />
      )}
    </Card>
  )
}

function Result({ view, base, profile }: { view: View; base: Query; profile: Profile }) {
  const summary = payloadByName(view, 'summary', 'figures')
  const chart = payloadByName(view, 'chart', 'series')
  const isCut = summary?.figures.find(({ metric }) => metric.key === 'sql_is_cut')?.value === true
  return (
    <div className={css.result}>
      <NoticesCard view={view} />
      {isCut && (
        <p className={textCss.mute}>
          The query has more rows. The table shows the first {counted(numberOf(summary, 'sql_rows') ?? 0, 'row')}.
        </p>
      )}
      {chart && (
        <Card title={chart.title} subtitle={chart.subtitle}>
          <Chart series={chart} height={200} compact />
        </Card>
      )}
      <TableSection
        view="sql"
        base={base}
        groups={ROWS}
        placeholder="Search these rows, text or /regex/"
        detail={(row) => <Opened row={row} profile={profile} ranks={base.ranks === 'all'} />}
      />
    </div>
  )
}

/** Opens the timeline of the event's rank. */
function showEvent(
  { event, start_ns: start, dur_ns: dur }: Row,
  { run, span, worker: own }: Profile,
  worker: string,
): void {
  const isTimed = typeof start === 'number' && typeof dur === 'number'
  const state = isTimed ? timelineState(Number(event), start, dur) : { event: String(event) }
  if (worker === own) openView('timeline', state)
  else openViewOfProfile({ run, worker, span }, 'timeline', state)
}

/** The values of a row in full, and the way to its event. Without its rank, an event of several ranks has none. */
const Opened = ({ row, profile, ranks }: { row: Row; profile: Profile; ranks: boolean }) => (
  <div className={css.opened}>
    {typeof row.event === 'number' && (!ranks || typeof row.rank === 'string') && (
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => showEvent(row, profile, ranks ? String(row.rank) : profile.worker)}
      >
        Show in timeline
      </Button>
    )}
    <dl>
      {Object.entries(row).map(
        ([key, value]) =>
          key !== 'sql_row' && (
            <div key={key}>
              <dt>{key}</dt>
              <dd className={textCss.mono}>{String(value ?? 'null')}</dd>
            </div>
          ),
      )}
    </dl>
  </div>
)
