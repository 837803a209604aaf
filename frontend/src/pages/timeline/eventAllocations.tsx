// Links from an event to the blocks allocated in it.
import { Button } from '@mantine/core'
import { useState } from 'react'
import type { Catalog, ClockInfo, Profile } from '../../api/payloads'
import type { Range } from '../../canvas/viewport'
import { allocationRange } from '../../lib/companions'
import { addressText } from '../../lib/profiles'
import { useCompanions } from '../../state/companions'
import type { Values } from '../../state/tensorboardHash'
import { openViewOfProfile } from '../../state/urlState'

/** URL state of the snapshot's blocks table, limited to the event's time. */
function blocksState(at: Range, trace: ClockInfo, snapshot: ClockInfo): Values {
  const [first, last] = allocationRange(at.start, at.end, trace, snapshot).map(String)
  return { group: 'held_blocks', axis: 'time', from_ns: first, to_ns: last, min_begin_ns: first, max_begin_ns: last }
}

/** A button per overlapping snapshot. */
export function EventAllocations({ catalog, profile, at }: { catalog: Catalog; profile: Profile; at: Range }) {
  const [wanted, setWanted] = useState('')
  const found = useCompanions(catalog, profile, wanted)
  return found.map(({ address, profile: there }) => {
    const key = JSON.stringify(address)
    const name = found.length > 1 ? ` of ${address.worker}` : ''
    if (!there) {
      return (
        <Button
          key={key}
          size="compact-xs"
          variant="default"
          loading={wanted === key}
          title={`Reads ${addressText(address)} and checks whether both were recorded together`}
          onClick={() => setWanted(key)}
        >
          Read the snapshot{name}
        </Button>
      )
    }
    if (!profile.clock || !there.clock) return null
    const state = blocksState(at, profile.clock, there.clock)
    if (Number(state.to_ns) < 0 || Number(state.from_ns) > there.clock.length_ns) return null
    return (
      <Button
        key={key}
        size="compact-xs"
        variant="default"
        title={`In ${addressText(address)}: blocks allocated on any thread during this event`}
        onClick={() => openViewOfProfile({ ...address }, 'allocations', state)}
      >
        Blocks in the snapshot{name}
      </Button>
    )
  })
}
