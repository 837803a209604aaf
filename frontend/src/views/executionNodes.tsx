// An execution trace: its nodes, and the way to the trace that was recorded with it.
import { Button } from '@mantine/core'
import { candidatesBeside } from '../lib/beside'
import { openElsewhere } from '../state/route'
import { AnswerPage, RowFacts } from './parts/answerPage'
import type { Group } from './parts/tableSection'
import type { ViewProps } from './view'

const GROUPS: Group[] = [{ table: 'execution_nodes', label: 'Nodes' }]

export function ExecutionNodes({ base, catalog, profile }: ViewProps) {
  const traces = candidatesBeside(catalog, profile, profile.model, 'trace')
  return (
    <AnswerPage
      id="execution_nodes"
      query={base}
      groups={GROUPS}
      placeholder="Search nodes, text or /regex/"
      detail={(row, table) => <RowFacts row={row} table={table} />}
      action={
        traces.length === 1 && (
          <span>
            <Button
              size="compact-xs"
              variant="default"
              onClick={() =>
                openElsewhere({ run: traces[0].run, worker: traces[0].worker, span: traces[0].span }, 'timeline', {})
              }
            >
              Open the timeline of {traces[0].worker}
            </Button>
          </span>
        )
      }
    />
  )
}
