// An execution trace's node: tensors, operators, event.
import type { ReactNode } from 'react'
import type { Query } from '../api/client'
import type { View } from '../api/payloads'
import type { Row } from '../lib/tableRows'
import { SmallTable } from '../widgets/smallTable'
import { firstEvent } from './firstEvent'
import { payloadByName } from './payloadByName'
import textCss from '../widgets/text.module.css'

const WITHOUT = ['function_id', 'node_number']

/** `show`: link to the timeline; `onName`: opens an operator in place. */
export function ExecutionNodeDetail(props: {
  view: View
  show?: { label: string; of: (row: Row) => (() => void) | null }
  onName?: (row: Row) => void
  heading: (text: string) => ReactNode
}) {
  const { view, show, onName, heading } = props
  const tensors = payloadByName(view, 'node_tensors', 'table')
  const links = payloadByName(view, 'node_links', 'table')
  return (
    <>
      {tensors && tensors.rows.length > 0 ? (
        <SmallTable table={tensors} limit={50} />
      ) : (
        <p className={textCss.none}>This node has no input or output tensors.</p>
      )}
      {links && links.rows.length > 0 && (
        <>
          {heading('Producers of its inputs and consumers of its outputs')}
          <SmallTable table={links} limit={50} without={WITHOUT} show={show} onName={onName} />
        </>
      )}
    </>
  )
}

/** The number of a call, and its name: both files state them. */
interface Call {
  name: string
  function_id: number
}

/** A call's event in a companion trace; null if there is none. */
export const eventOf = ({ name, function_id }: Call, trace: Query) =>
  firstEvent({ ...trace, search: String(function_id), in: 'args', exact: 1, where: [`name:${name}`] })

export const callOf = (row: Row): Call => ({ name: String(row.name), function_id: Number(row.function_id) })
