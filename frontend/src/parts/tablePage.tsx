// A page of cards above the tables of one view.
import type { ComponentProps, ReactNode } from 'react'
import type { Query } from '../api/client'
import type { View } from '../api/payloads'
import type { Resource } from '../state/data'
import { TableSection } from './tableSection'
import { ViewFrame } from './viewFrame'
import css from './viewFrame.module.css'

export function TablePage(
  props: Omit<ComponentProps<typeof TableSection>, 'base'> &
    Omit<ComponentProps<typeof ViewFrame>, 'children' | 'steps'> & {
      resource: Resource<View>
      base: Query
      /** The cards. */
      top: (view: View) => ReactNode
      /** The tables follow the first answer; absent: they load beside it. */
      waits?: boolean
    },
) {
  const { resource, bones, action, top, waits, ...table } = props
  return (
    <div className={css.page}>
      <ViewFrame resource={resource} bones={bones} steps={String(table.base.steps ?? '')} action={action}>
        {top}
      </ViewFrame>
      {(resource.data || !(waits || resource.problem)) && <TableSection {...table} />}
    </div>
  )
}
