// A view without a page: each payload drawn by kind.

import type { PageProps } from '../../parts/page'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { followLink } from '../../state/links'
import { PayloadCard } from '../../widgets/payload'
import layoutCss from '../../widgets/layout.module.css'

export function GenericPage({ id, base }: PageProps) {
  const resource = useView(id, base)
  return (
    <ViewFrame resource={resource} bones={400} steps={String(base.steps ?? '')}>
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
