// What the devices of two profiles did, side by side: the step, families of kernels, communication and memory.
import type { View } from '../../api/payloads'
import { Card } from '../../widgets/basics'
import { SmallTable } from '../../widgets/smallTable'
import { pick } from './pick'
import layoutCss from '../../widgets/layout.module.css'

/** Tables in the order of the page, and how much of its width each takes. */
const TABLES = [
  { name: 'overall', subtitle: 'parts of the step that sum to it', width: layoutCss.span12 },
  { name: 'computing', subtitle: 'kernels of both sides; concurrent streams add up', width: layoutCss.span12 },
  { name: 'communication', subtitle: 'also where something hides it', width: layoutCss.span12 },
  { name: 'memory', subtitle: "PyTorch's allocator", width: layoutCss.span12 },
]

export function DevicesBeside({ view }: { view: View }) {
  return TABLES.map(({ name, subtitle, width }) => {
    const table = pick(view, name, 'table')
    return (
      table && (
        <Card key={name} className={width} title={table.title} subtitle={subtitle}>
          <SmallTable table={table} />
        </Card>
      )
    )
  })
}
