// One choice of the top bar: a label while there is nothing to choose, a filtering list otherwise.
import { Combobox, ScrollArea, useCombobox } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { ChevronDown } from './icons'

export interface Choice {
  value: string
  label: string
  /** Said on the right: state, size, time. */
  note?: ReactNode
  tone?: 'bad' | 'busy'
}

const FILTER_FROM = 8

export function Picker(props: {
  label: string
  value: string
  choices: readonly Choice[]
  onChange: (value: string) => void
}) {
  const { label, value, choices, onChange } = props
  const [filter, setFilter] = useState('')
  const box = useCombobox({
    onDropdownClose: () => {
      setFilter('')
      box.resetSelectedOption()
    },
    onDropdownOpen: () => {
      if (choices.length >= FILTER_FROM) box.focusSearchInput()
    },
  })
  const current = choices.find((choice) => choice.value === value)
  if (choices.length <= 1) {
    return (
      <div className="tt-pick tt-pick-label">
        <small>{label}</small>
        <span title={current?.label ?? value}>{current?.label ?? (value || '–')}</span>
      </div>
    )
  }
  const wanted = filter.trim().toLowerCase()
  const found = choices.filter((choice) => choice.label.toLowerCase().includes(wanted))
  return (
    <Combobox
      store={box}
      width="max-content"
      position="bottom-start"
      onOptionSubmit={(next) => {
        onChange(next)
        box.closeDropdown()
      }}
    >
      <Combobox.Target>
        <button type="button" className="tt-pick" onClick={() => box.toggleDropdown()}>
          <small>
            {label}
            <span className="tt-sr">: </span>
          </small>
          <span title={current?.label}>
            {current?.label ?? value}
            <ChevronDown />
          </span>
        </button>
      </Combobox.Target>
      <Combobox.Dropdown className="tt-pick-list">
        {choices.length >= FILTER_FROM && (
          <Combobox.Search
            value={filter}
            onChange={(event) => setFilter(event.currentTarget.value)}
            placeholder={`Filter ${label.toLowerCase()}s`}
            aria-label={`Filter ${label.toLowerCase()}s`}
          />
        )}
        <Combobox.Options>
          <ScrollArea.Autosize mah={360} type="auto">
            {found.map((choice) => (
              <Combobox.Option
                key={choice.value}
                value={choice.value}
                active={choice.value === value}
                selected={choice.value === value}
              >
                <span className="tt-pick-item">
                  <span className={choice.value === value ? 'tt-strong' : undefined}>{choice.label}</span>
                  {choice.note && (
                    <small className={choice.tone ? `tt-tone-${choice.tone}` : undefined}>{choice.note}</small>
                  )}
                </span>
              </Combobox.Option>
            ))}
            {found.length === 0 && <Combobox.Empty>None matches.</Combobox.Empty>}
          </ScrollArea.Autosize>
        </Combobox.Options>
      </Combobox.Dropdown>
    </Combobox>
  )
}
