// A view this page does not know: each payload drawn by its kind, in the server's order.

import type { ViewProps } from '../../parts/page'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { followLink } from '../../state/links'
import { Bones } from '../../widgets/basics'
import { PayloadCard } from '../../widgets/payload'
import layoutCss from '../../widgets/layout.module.css'

export function Fallback({ id, base }: ViewProps) {
  const resource = useView(id, base)
  return (
    <ViewFrame resource={resource} bones={<Bones height={400} />} steps={String(base.steps ?? '')}>
      {(view) => (
        <div className={layoutCss.column}>
          {Object.entries(view.payloads).map(([name, payload]) => (
            <PayloadCard key={name} payload={payload} onLink={followLink} />
          ))}
        </div>
      )}
    </ViewFrame>
  )
}
