// An opened row of kernels by operator: both names in full, and the way to each kernel in its own profile.
import { Button } from '@mantine/core'
import type { Row } from '../../lib/tableRows'
import { joinList } from '../../state/hash'
import { openElsewhere } from '../../state/route'
import type { Side } from './comparedRow'
import rowDetailCss from '../../parts/rowDetail.module.css'
import textCss from '../../widgets/text.module.css'
import bothSidesCss from './comparedRow.module.css'

export function KernelsBeside({ row, base, exp }: { row: Row; base: Side; exp: Side }) {
  return (
    <div className={bothSidesCss.sides}>
      <OneKernel name={row.base_kernel} label="Open in baseline" side={base} />
      <OneKernel name={row.exp_kernel} label="Open in experiment" side={exp} />
    </div>
  )
}

function OneKernel({ name, label, side }: { name: Row[string] | undefined; label: string; side: Side }) {
  if (!name) return null
  return (
    <div className={rowDetailCss.name}>
      <span className={textCss.mono}>{String(name)}</span>
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => openElsewhere({ ...side }, 'kernels', { where: joinList([`name:${name}`]) })}
      >
        {label}
      </Button>
    </div>
  )
}
