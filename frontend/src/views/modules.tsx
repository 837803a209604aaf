// Modules: the model as it was called, as an icicle chart and as a tree with the same numbers.
import { Button, NativeSelect, SegmentedControl } from '@mantine/core'
import { type ReactNode, useMemo, useState } from 'react'
import type { Query } from '../api/client'
import type { Tree, View } from '../api/payloads'
import { format } from '../lib/format'
import { matcher } from '../lib/search'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { openView, setRoute, useRoute } from '../state/route'
import { Bones, Card } from '../widgets/basics'
import { Icicle } from '../widgets/icicle'
import { PayloadCard } from '../widgets/payload'
import { TreeTable } from '../widgets/tree'
import { ViewFrame } from './parts/frame'
import { RowDetail } from './parts/rowDetail'
import { type Group, SearchBox, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'

export function Modules({ base }: ViewProps) {
  const resource = useView('modules', base)
  return (
    <ViewFrame resource={resource} bones={<Bones height={500} />} steps={String(base.steps ?? '')}>
      {(view) => <Page view={view} base={base} />}
    </ViewFrame>
  )
}

const GROUPS: Group[] = [{ table: 'modules', label: 'Modules' }]

function Page({ view, base }: { view: View; base: Query }) {
  const route = useRoute()
  const payloads = Object.entries(view.payloads)
  const tree = payloads.map(([, payload]) => payload).find((payload) => payload.kind === 'tree')
  const hasTable = payloads.some(([, payload]) => payload.kind === 'table')
  if (!tree) {
    return (
      <div className="tt-column">
        {payloads.map(([name, payload]) => (
          <PayloadCard key={name} payload={payload} onLink={followLink} />
        ))}
      </div>
    )
  }
  const form = hasTable ? (
    <SegmentedControl
      size="sm"
      aria-label="Form"
      value={route.form === 'table' ? 'table' : 'tree'}
      onChange={(next) => setRoute({ form: next === 'tree' ? '' : next, row: '', sort: '', desc: '', cols: '' }, true)}
      data={[
        { value: 'tree', label: 'Tree' },
        { value: 'table', label: 'By module' },
      ]}
    />
  ) : null
  if (route.form === 'table' && hasTable) {
    return (
      <div className="tt-page-table">
        <TableSection
          view="modules"
          base={base}
          groups={GROUPS}
          lead={form}
          placeholder="Search modules, text or /regex/"
          detail={(row, table) => <RowDetail row={row} table={table} base={base} stacks={false} />}
        />
      </div>
    )
  }
  return <TreePage tree={tree} form={form} />
}

/** The first levels open, as long as they fit on a screen. */
function firstOpen(tree: Tree): ReadonlySet<number> {
  const roots = tree.parent.flatMap((parent, i) => (parent < 0 ? [i] : []))
  const open = new Set<number>()
  let rows = roots.length
  const queue = [...roots]
  for (let node = queue.shift(); node !== undefined; node = queue.shift()) {
    const children = tree.parent.flatMap((parent, i) => (parent === node ? [i] : []))
    if (children.length === 0) continue
    if (rows + children.length > 24 && open.size > 0) break
    rows += children.length
    open.add(node)
    queue.push(...children)
  }
  return open
}

function TreePage({ tree, form }: { tree: Tree; form: ReactNode }) {
  const route = useRoute()
  const [open, setOpen] = useState<ReadonlySet<number>>(() => firstOpen(tree))
  const value = tree.value_columns.find((key) => key === route.width) ?? tree.value_columns[0]
  const selected = route.row && Number(route.row) < tree.rows.length ? Number(route.row) : -1
  const zoom = route.zoom && Number(route.zoom) < tree.rows.length ? Number(route.zoom) : -1
  const match = useMemo(() => matcher(route.search ?? ''), [route.search])
  const found = match ? tree.rows.filter((row) => match(String(row[tree.label_column] ?? ''))).length : 0
  const select = (node: number) => {
    const next = new Set(open)
    for (let at = tree.parent[node]; at >= 0; at = tree.parent[at]) next.add(at)
    if (next.size !== open.size) setOpen(next)
    setRoute({ row: String(node) })
  }
  const search = (text: string) => {
    const matches = matcher(text)
    if (matches) {
      const next = new Set(open)
      tree.rows.forEach((row, i) => {
        if (matches(String(row[tree.label_column] ?? '')))
          for (let at = tree.parent[i]; at >= 0; at = tree.parent[at]) next.add(at)
      })
      setOpen(next)
    }
    setRoute({ search: text })
  }
  const titleOf = (key: string) => tree.columns.find((column) => column.metric.key === key)?.metric
  const all = () => setOpen(new Set(tree.parent.filter((parent) => parent >= 0)))
  const name = selected >= 0 ? String(tree.rows[selected][tree.label_column] ?? '') : ''
  return (
    <div className="tt-page-table">
      <div className="tt-toolbar">
        {form}
        {tree.value_columns.length > 1 && (
          <NativeSelect
            size="sm"
            aria-label="Width of the icicle chart"
            value={value}
            onChange={(event) =>
              setRoute({ width: event.currentTarget.value === tree.value_columns[0] ? '' : event.currentTarget.value })
            }
            data={tree.value_columns.map((key) => ({ value: key, label: titleOf(key)?.title ?? key }))}
          />
        )}
        <SearchBox value={route.search ?? ''} onChange={search} placeholder="Search modules, text or /regex/" />
        <span className="tt-count tt-mute">
          {match ? `${found} of ${tree.rows.length} match` : `${tree.rows.length.toLocaleString('en-US')} modules`}
          {tree.total_nodes > tree.rows.length && ` of ${tree.total_nodes.toLocaleString('en-US')}`}
        </span>
        <Button size="sm" variant="default" onClick={all}>
          Open all
        </Button>
        <Button size="sm" variant="default" onClick={() => setOpen(new Set())}>
          Close all
        </Button>
        {name && (
          <Button size="sm" variant="default" onClick={() => openView('timeline', { search: name })}>
            Show in timeline
          </Button>
        )}
      </div>
      {value && (
        <Card
          title="Icicle"
          subtitle={`width: ${titleOf(value)?.title.toLowerCase() ?? value} · click zooms`}
          actions={
            zoom >= 0 ? (
              <Button size="compact-xs" variant="default" onClick={() => setRoute({ zoom: '' })}>
                Zoom out of {String(tree.rows[zoom][tree.label_column] ?? '')} (
                {format(tree.rows[zoom][value] ?? null, titleOf(value)?.unit ?? 'ns')})
              </Button>
            ) : undefined
          }
        >
          <div className="tt-icicle-frame">
            <Icicle
              tree={tree}
              valueKey={value}
              category={value.includes('device') ? 'kernel' : 'cpu'}
              zoom={zoom}
              onZoom={(node) => setRoute({ zoom: node < 0 ? '' : String(node) })}
              selected={selected}
              onSelect={select}
            />
          </div>
        </Card>
      )}
      <TreeTable tree={tree} open={open} onOpen={setOpen} selected={selected} onSelect={select} match={match} />
    </div>
  )
}
