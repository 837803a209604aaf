// All hits of the search as a list, with totals.
import { Button } from '@mantine/core'
import { useMemo, useState } from 'react'
import { type Query, tableCsvUrl } from '../../api/client'
import { type Spot, spotOfRow } from '../../canvas/timeline/model'
import { format } from '../../lib/format'
import { emptyHint } from '../../lib/search'
import { usePages } from '../../state/tablePages'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, CloseButton } from '../../widgets/basics'
import { Switch } from '../../widgets/choice'
import { DataTable } from '../../widgets/table'
import { count } from './footer'
import { searchOf, type TimelineOverlays } from './overlays'
import textCss from '../../widgets/text.module.css'
import css from './rangePanel.module.css'

type Found = NonNullable<TimelineOverlays['searchHits']>

/** `total 3.2 ms, mean 32 us, per step 0.53 ms in 16 events`. */
export function totalsText({ total, totalNs, perStep }: Found): string {
  const texts = [`total ${format(totalNs, 'ns')}`]
  if (total) texts.push(`mean ${format(totalNs / total, 'ns')}`)
  if (perStep) texts.push(`per step ${format(perStep.ns, 'ns')} in ${format(perStep.events, 'count')} events`)
  return texts.join(' · ')
}

const TABLES = { hits: 'Events', names: 'By name' }

export function HitsPanel(props: { found: Found; base: Query; onGo: (event: number, at: Spot) => void }) {
  const { found, base, onGo } = props
  const { search = '', hit = '', event = '' } = useRoute()
  const [table, setTable] = useState('hits')
  const [order, setOrder] = useState({ key: '', desc: true })
  const what = useMemo(() => searchOf({ search, hit }), [search, hit])
  const asked = useMemo<Query>(() => ({ ...base, in: what?.in }), [base, what])
  const query = useMemo(
    () => ({ sort: order.key, desc: order.desc, search: what?.search ?? '', where: what?.where ?? [] }),
    [order, what],
  )
  const pages = usePages('find', table, asked, query)
  const show = (id: string) => {
    for (let i = 0; i < pages.count; i++) {
      const row = pages.row(i)
      if (row && String(row.event) === id) return onGo(Number(id), spotOfRow(row))
    }
  }
  const order1 = { sort: order.key, desc: order.key ? (order.desc ? 1 : 0) : null }
  return (
    <Card
      className={css.range}
      label="Hits"
      title={`${count(found.total)} found`}
      subtitle={totalsText(found)}
      actions={
        <span className={textCss.row}>
          <Switch
            label="List"
            value={table}
            options={TABLES}
            onChange={(next) => {
              setTable(next)
              setOrder({ key: '', desc: true })
            }}
          />
          <Button
            size="compact-xs"
            variant="default"
            component="a"
            href={tableCsvUrl('find', table, { ...asked, ...order1, search: query.search, where: query.where })}
            download
          >
            CSV
          </Button>
          <CloseButton label="Close the list" onClick={() => setRoute({ list: '' })} />
        </span>
      }
    >
      {found.total === 0 ? (
        <p className={textCss.none}>{emptyHint(search)}</p>
      ) : (
        <DataTable
          pages={pages}
          query={query}
          onSort={(key, desc) => setOrder({ key, desc })}
          shown={null}
          nameStyle="kernel"
          open={event}
          onOpen={table === 'hits' ? show : undefined}
          label="Hits"
        />
      )}
    </Card>
  )
}
