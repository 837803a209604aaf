// A filter by a number's range.
import { Button, Popover, TextInput } from '@mantine/core'
import { useEffect, useState } from 'react'
import type { Unit } from '../api/payloads'
import { format } from '../lib/format'
import { readQuantity, writeQuantity } from '../lib/quantity'
import { ChevronDown } from './icons'
import css from './rangeFilter.module.css'

interface Range {
  /** Whole numbers as text, '' = no limit. */
  low: string
  high: string
}

const written = (text: string, unit: Unit) => (text === '' ? '' : writeQuantity(Number(text), unit))

function limitsText({ low, high }: Range, unit: Unit): string {
  if (low !== '' && high !== '') return `${written(low, unit)} to ${written(high, unit)}`
  return low !== '' ? `≥ ${written(low, unit)}` : `≤ ${written(high, unit)}`
}

export function RangeFilter(props: {
  label: string
  unit: Unit
  range: Range
  /** Placeholder: the extremes. */
  extremes: readonly number[] | undefined
  onChange: (range: Range) => void
}) {
  const { label, unit, range, extremes, onChange } = props
  const set = range.low !== '' || range.high !== ''
  return (
    <Popover position="bottom-start" withinPortal trapFocus>
      <Popover.Target>
        <Button
          size="sm"
          variant={set ? 'light' : 'default'}
          className={css.button}
          rightSection={<ChevronDown />}
          aria-label={`${label}: ${set ? limitsText(range, unit) : 'any'}`}
        >
          {set ? `${label} ${limitsText(range, unit)}` : label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown className={css.fields}>
        <Limit
          label={`${label} at least`}
          unit={unit}
          value={range.low}
          hint={extremes?.[0]}
          onChange={(low) => onChange({ ...range, low })}
        />
        <Limit
          label={`${label} at most`}
          unit={unit}
          value={range.high}
          hint={extremes?.[1]}
          onChange={(high) => onChange({ ...range, high })}
        />
        <Button size="xs" variant="default" disabled={!set} onClick={() => onChange({ low: '', high: '' })}>
          Any {label.toLowerCase()}
        </Button>
      </Popover.Dropdown>
    </Popover>
  )
}

function Limit(props: {
  label: string
  unit: Unit
  value: string
  hint: number | undefined
  onChange: (value: string) => void
}) {
  const { label, unit, value, hint, onChange } = props
  const [text, setText] = useState(written(value, unit))
  useEffect(() => setText(written(value, unit)), [value, unit])
  const read = readQuantity(text, unit)
  const commit = () => {
    if (read === undefined) return
    const next = read === null ? '' : String(read)
    setText(written(next, unit))
    if (next !== value) onChange(next)
  }
  return (
    <TextInput
      size="xs"
      label={label}
      placeholder={hint === undefined ? '' : format(hint, unit)}
      value={text}
      error={read === undefined ? `For example: ${unit === 'ns' ? '200 µs or 1.5 ms' : '512 B or 1.5 MiB'}` : null}
      onChange={(event) => setText(event.currentTarget.value)}
      onBlur={commit}
      onKeyDown={(event) => event.key === 'Enter' && commit()}
    />
  )
}
