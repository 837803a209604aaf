// Visible events as a table, for screen readers.
import { useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Range } from '../../canvas/viewport'
import { usePages } from '../../state/tablePages'
import { DataTable } from '../../widgets/table'

export function TimelineEventText(props: {
  profile: Query
  view: Range
  search: string
  onOpen: (event: string) => void
}) {
  const { profile, view, search, onOpen } = props
  const [order, setOrder] = useState({ key: '', desc: true })
  const asked: Query = useMemo(
    () => ({ ...profile, start_ns: view.start, end_ns: view.end }),
    [profile, view.start, view.end],
  )
  const query = useMemo(() => ({ sort: order.key, desc: order.desc, search, where: [] }), [order, search])
  const pages = usePages('events', 'instances', asked, query)
  return (
    <DataTable
      pages={pages}
      query={query}
      onSort={(key, desc) => setOrder({ key, desc })}
      shown={null}
      nameStyle="kernel"
      open=""
      onOpen={onOpen}
      label="Visible events"
    />
  )
}
