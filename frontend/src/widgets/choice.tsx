// One of several values: a list or a row of buttons.
import { NativeSelect, type NativeSelectProps, SegmentedControl } from '@mantine/core'
import type { ReactNode } from 'react'

type Options = Readonly<Record<string, string>> | readonly (string | Option)[]

interface Option {
  value: string
  label: ReactNode
  disabled?: boolean
}

interface Props {
  label: string
  value: string
  options: Options
  onChange: (value: string) => void
  size?: 'xs' | 'sm'
  className?: string
}

const listOf = (options: Options) =>
  Array.isArray(options) ? [...options] : Object.entries(options).map(([value, label]) => ({ value, label }))

export const Choice = ({
  label,
  options,
  onChange,
  size = 'xs',
  ...rest
}: Props & Pick<NativeSelectProps, 'title'>) => (
  <NativeSelect
    size={size}
    aria-label={label}
    onChange={(event) => onChange(event.currentTarget.value)}
    data={listOf(options)}
    {...rest}
  />
)

export const Switch = ({ label, options, size = 'xs', ...rest }: Props & { disabled?: boolean }) => (
  <SegmentedControl size={size} aria-label={label} data={listOf(options)} {...rest} />
)
