// Collectives of flight recorders.

import { modelNoun } from '../../lib/modelNouns'
import { spansOfRun } from '../../lib/profiles'
import { AnswerPage, RowFacts } from '../../parts/answerPage'
import type { PageProps } from '../../parts/page'
import type { Group } from '../../parts/tableSection'
import { useQuery } from '../../state/data'
import { openViewOfProfile } from '../../state/urlState'
import { SmallButton } from '../../widgets/basics'
import { ReadingAll } from './allWorkers'

const SEARCH = 'Search collectives, text or /regex/'
const OF_RANK: Group[] = [
  { table: 'recorded_calls', label: 'Calls' },
  { table: 'group_progress', label: 'Process groups', filters: [] },
]
const OF_ALL: Group[] = [
  { table: 'matched_collectives', label: 'Collectives' },
  { table: 'rank_progress', label: 'Ranks', filters: [], nameStyle: 'plain' },
]

export function Collectives({ base }: PageProps) {
  return (
    <AnswerPage
      id="collectives"
      query={base}
      groups={OF_RANK}
      placeholder={SEARCH}
      detail={(row, table) => <RowFacts row={row} table={table} />}
    />
  )
}

export function RanksCollectives({ base, profile, catalog }: PageProps) {
  // The answer is the same for every worker.
  const query = useQuery(base, { worker: '' })
  const place = { run: profile.run, span: profile.span }
  return (
    <AnswerPage
      id="ranks_collectives"
      bones={(resource) => (
        <ReadingAll
          all={{
            resource,
            workers: spansOfRun(catalog, profile, profile.model).length,
            noun: modelNoun(profile.model),
          }}
        />
      )}
      query={query}
      groups={OF_ALL}
      placeholder={SEARCH}
      detail={(row, table) => (
        <RowFacts row={row} table={table}>
          {row.worker && (
            <SmallButton onClick={() => openViewOfProfile({ ...place, worker: String(row.worker) }, 'collectives', {})}>
              Open calls of this rank
            </SmallButton>
          )}
        </RowFacts>
      )}
    />
  )
}
