import { expect, test } from 'vitest'
import { recordersText } from './flightRecorders'

const row = (worker: string, called_in_traces: number, not_called: number) => ({ worker, called_in_traces, not_called })

test('one sentence says what flight recorders tell beside the traces', () => {
  const said = (...rows: ReturnType<typeof row>[]) => recordersText({ rows, matched_rows: rows.length })
  expect(said(row('rank0', 7, 0), row('rank0', 1, 0), row('rank1', 4, 0))).toBe(
    'Flight recorder dumps of 2 ranks are available: no rank stopped early. ' +
      '12 calls also appear in the traces (column "Also in traces" of the table Flight recorders).',
  )
  expect(said(row('rank0', 7, 0), row('rank1', 4, 3))).toContain('rank1 made no more calls while other ranks continued')
  expect(said(row('rank0', 7, 1), row('rank1', 4, 3))).toContain('rank0 and 1 other made no more calls')
  expect(said(row('rank0', 0, 0))).toContain('1 rank are available: none of their calls is in the traces')
  expect(recordersText({ rows: [row('rank0', 1, 0)], matched_rows: 300 })).toContain('1 rank and more')
})
