// Links from Memory to the worker's memory flows.
import { Button } from '@mantine/core'
import type { Catalog, Profile } from '../../api/payloads'
import { ofWorker } from '../../lib/companions'
import { openViewOfProfile } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import textCss from '../../widgets/text.module.css'

const MODEL = 'memory_flow'

export function MemoryFlowLinks({ catalog, profile }: { catalog: Catalog; profile: Profile }) {
  const flows = ofWorker(catalog, profile, MODEL)
  if (flows.length === 0) return null
  return (
    <Card title="Tensors of this worker">
      <p className={textCss.none}>Address, lifetime and allocating operator of each tensor.</p>
      {flows.map((address) => (
        <Button
          key={address.span}
          size="compact-xs"
          variant="default"
          onClick={() => openViewOfProfile({ ...address }, MODEL, {})}
        >
          Open the memory flow{flows.length > 1 && ` of span ${address.span}`}
        </Button>
      ))}
    </Card>
  )
}
