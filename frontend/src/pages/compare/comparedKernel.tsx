// An opened row of kernels by operator: both kernels.
import { Button } from '@mantine/core'
import type { Row } from '../../lib/tableRows'
import { joinList } from '../../state/tensorboardHash'
import { openViewOfProfile } from '../../state/urlState'
import type { Side } from './comparedRow'
import rowDetailCss from '../../parts/rowDetail.module.css'
import textCss from '../../widgets/text.module.css'
import bothSidesCss from './comparedRow.module.css'

export function ComparedKernel({ row, base, exp }: { row: Row; base: Side; exp: Side }) {
  return (
    <div className={bothSidesCss.sides}>
      <KernelOfSide name={row.base_kernel} label="Open in baseline" side={base} />
      <KernelOfSide name={row.exp_kernel} label="Open in experiment" side={exp} />
    </div>
  )
}

function KernelOfSide({ name, label, side }: { name: Row[string] | undefined; label: string; side: Side }) {
  if (!name) return null
  return (
    <div className={rowDetailCss.name}>
      <span className={textCss.mono}>{String(name)}</span>
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => openViewOfProfile({ ...side }, 'kernels', { where: joinList([`name:${name}`]) })}
      >
        {label}
      </Button>
    </div>
  )
}
