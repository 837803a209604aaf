// The opened row "(no operator)".
import { Button } from '@mantine/core'
import type { Query } from '../../api/client'
import type { Breakdown } from '../../api/payloads'
import { DetailBlock, FirstRows } from '../../parts/detailBlock'
import { followLink, showHits } from '../../state/links'
import { BreakdownBar } from '../../widgets/breakdown'
import { TimelineIcon } from '../../widgets/icons'
import css from '../../parts/rowDetail.module.css'

export const NO_OPERATOR = '(no operator)'
const WHERE = [`operator:${NO_OPERATOR}`]

export function KernelsWithoutOperator({ reasons, base }: { reasons: Breakdown | null; base: Query }) {
  return (
    <div className={css.grid}>
      <div className={css.name}>
        <span />
        <Button
          size="compact-xs"
          variant="default"
          leftSection={<TimelineIcon />}
          onClick={() => showHits(WHERE, NO_OPERATOR)}
        >
          Show in timeline
        </Button>
      </div>
      {reasons && (
        <DetailBlock title="Why there is no operator" wide>
          <BreakdownBar payload={reasons} onLink={followLink} />
        </DetailBlock>
      )}
      <FirstRows
        title="Launched work"
        view="operators"
        table="no_operator"
        base={base}
        limit={100}
        nameStyle="kernel"
      />
    </div>
  )
}
