// Idle time of devices, by cause and step.

import type { Query } from '../../api/client'
import type { Row } from '../../lib/tableRows'
import { EventFacts, FirstRows, showEvent } from '../../parts/detailBlock'
import { todoOf } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { StepsSummary } from '../../parts/stepsSummary'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { GAPS } from '../../state/links'
import { joinList } from '../../state/tensorboardHash'
import { setRoute } from '../../state/urlState'
import { SmallButton } from '../../widgets/basics'

const KEY = ['cause', 'idle_host', 'idle_line']
const PIECES = 'idle_pieces'
const GROUPS: Group[] = [
  { table: 'idle_groups', label: 'By cause and line', filters: KEY },
  { table: PIECES, label: 'Longest', filters: [...KEY, 'step', 'device', 'operator'] },
  { table: 'idle_steps', label: 'By step', filters: [] },
]
const LISTED = 8

export function Idle({ base }: PageProps) {
  const resource = useView('idle', base)
  return (
    <TablePage
      view="idle"
      resource={resource}
      base={base}
      bones={330}
      top={(view) => <StepsSummary view={view} parts="idle_by_cause" of="% of idle" add={todoOf} />}
      groups={GROUPS}
      nameStyle="plain"
      placeholder="Search causes, calls and lines, text or /regex/"
      detail={(row, table) =>
        table.name === 'idle_groups' ? (
          <Periods row={row} base={base} />
        ) : (
          <EventFacts row={row} table={table} settings={GAPS} />
        )
      }
    />
  )
}

/** The longest idle periods of a cause and line. */
function Periods({ row, base }: { row: Row; base: Query }) {
  const where = KEY.map((key) => `${key}:${row[key] ?? ''}`)
  return (
    <FirstRows
      title="Longest periods"
      view="idle"
      table={PIECES}
      base={base}
      where={where}
      limit={LISTED}
      without={KEY}
      nameStyle="plain"
      show={{ label: 'Show in timeline', of: (piece) => showEvent(piece, 'dur_ns', GAPS) }}
      more={
        <SmallButton
          onClick={() => setRoute({ group: PIECES, where: joinList(where), row: '', sort: '', cols: '' }, true)}
        >
          Show all
        </SmallButton>
      }
    />
  )
}
