// Devices and process groups, identical ones merged.
import { Button } from '@mantine/core'
import { useState } from 'react'
import type { Table, View } from '../../api/payloads'
import { counted } from '../../lib/format'
import { ranksShort } from '../../lib/rankLists'
import { payloadByName } from '../../parts/payloadByName'
import { Card } from '../../widgets/basics'
import { SmallTable } from '../../widgets/smallTable'
import textCss from '../../widgets/text.module.css'
import css from './rankGroups.module.css'

export function RankGroups({ view }: { view: View }) {
  const groups = payloadByName(view, 'process_groups', 'table')
  const devices = payloadByName(view, 'devices', 'table')
  return (
    <>
      {devices && (
        <Kinds
          all={devices}
          kinds={payloadByName(view, 'device_kinds', 'table')}
          what="per node and process"
          noun="device"
          none="The traces contain no device names."
        />
      )}
      {groups && (
        <Kinds
          all={readable(groups)}
          kinds={payloadByName(view, 'group_kinds', 'table')}
          what={`${groups.matched_rows.toLocaleString('en-US')}, as recorded`}
          noun="group"
          none="The traces contain no process groups."
        />
      )}
    </>
  )
}

function Kinds(props: { all: Table; kinds: Table | null; what: string; noun: string; none: string }) {
  const { all, kinds, what, noun, none } = props
  const [isOpen, setOpen] = useState(false)
  const isEach = !kinds || isOpen
  return (
    <Card
      className={isEach && all.rows.length > SHORT ? css.short : ''}
      title={all.title}
      subtitle={kinds ? `${counted(all.matched_rows, noun)}, identical ones merged` : what}
      actions={
        kinds && (
          <Button size="compact-xs" variant="default" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Merge identical' : 'Show all'}
          </Button>
        )
      }
    >
      {all.rows.length === 0 ? <p className={textCss.none}>{none}</p> : <SmallTable table={isEach ? all : kinds} />}
    </Card>
  )
}

/** Rows visible without scrolling. */
const SHORT = 24

/** Group description and ranks, before the library's name. */
function readable(table: Table): Table {
  const first = ['group_description', 'group_ranks']
  const named = (key: string) => first.includes(key) && table.rows.some((row) => row[key])
  const columns = [...table.columns].sort((a, b) => Number(named(b.metric.key)) - Number(named(a.metric.key)))
  const rows = table.rows.map((row) => ({
    ...row,
    group_ranks: typeof row.group_ranks === 'string' ? ranksShort(row.group_ranks) : row.group_ranks,
  }))
  return { ...table, columns, rows }
}
