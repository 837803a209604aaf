// Two profiles' devices side by side.
import type { View } from '../../api/payloads'
import { payloadByName } from '../../parts/payloadByName'
import { Card } from '../../widgets/basics'
import { SmallTable } from '../../widgets/smallTable'
import layoutCss from '../../widgets/layout.module.css'

/** Tables in the order of the page. */
const TABLES = [
  { name: 'overall', subtitle: 'parts of the step; they sum to the step time' },
  { name: 'computing', subtitle: 'kernel time summed over streams, for both profiles' },
  { name: 'communication', subtitle: 'including overlapped time' },
  { name: 'memory', subtitle: 'PyTorch allocator' },
]

export function DeviceComparison({ view }: { view: View }) {
  return TABLES.map(({ name, subtitle }) => {
    const table = payloadByName(view, name, 'table')
    return (
      table && (
        <Card key={name} className={layoutCss.span12} title={table.title} subtitle={subtitle}>
          <SmallTable table={table} />
        </Card>
      )
    )
  })
}
