// A filtering list for one choice.
import { Combobox, ScrollArea, useCombobox } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { format } from '../lib/format'
import { ChevronDown } from './icons'
import css from './picker.module.css'
import textCss from './text.module.css'

export interface Choice {
  value: string
  label: string
  /** Right-hand note: state, size, time. */
  note?: ReactNode
  hint?: string
  tone?: 'bad' | 'busy'
  /** A short remark beside the label. */
  badge?: string
  /** More text that the filter searches. */
  words?: string
}

const FILTER_FROM = 6
/** Drawing 1,000 entries takes 0.1 s; the filter finds the rest. */
export const MAX_LISTED = 100

/** At most `MAX_LISTED` choices around `index` (-1: the first ones), and how many come before. */
export function listedChoices<T>(choices: readonly T[], index: number): { before: number; shown: readonly T[] } {
  const before = Math.max(0, Math.min(index - MAX_LISTED / 2, choices.length - MAX_LISTED))
  return { before, shown: choices.slice(before, before + MAX_LISTED) }
}

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
      box.updateSelectedOptionIndex('active', { scrollIntoView: true })
      if (choices.length >= FILTER_FROM) box.focusSearchInput()
    },
  })
  const current = choices.find((choice) => choice.value === value)
  const title = [current?.label ?? value, current?.hint].filter(Boolean).join('\n')
  // If the URL names an unknown value, even a single choice is offered.
  if (choices.length === 0 || (choices.length === 1 && (current || !value))) {
    return (
      <div className={`${css.pick} ${css.label}`}>
        <small>{label}</small>
        <span title={title}>{current?.label ?? (value || '–')}</span>
      </div>
    )
  }
  const wanted = filter.trim().toLowerCase()
  const matches = ({ label, words = '', badge = '' }: Choice) =>
    `${label} ${words} ${badge}`.toLowerCase().includes(wanted)
  const found = box.dropdownOpened ? choices.filter(matches) : []
  const { before, shown } = listedChoices(found, wanted ? -1 : found.findIndex((choice) => choice.value === value))
  const after = found.length - before - shown.length
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
        <button type="button" className={css.pick} onClick={() => box.toggleDropdown()}>
          <small>
            {label}
            {current?.badge && ` · ${current.badge}`}
            <span className={textCss.sr}>: </span>
          </small>
          <span title={title}>
            <span className={css.chosen}>{current?.label ?? (value || '–')}</span>
            <ChevronDown />
          </span>
        </button>
      </Combobox.Target>
      <Combobox.Dropdown className={css.list}>
        {choices.length >= FILTER_FROM && (
          <Combobox.Search
            value={filter}
            onChange={(event) => {
              setFilter(event.currentTarget.value)
              box.resetSelectedOption()
            }}
            placeholder={`Filter ${label.toLowerCase()}s`}
            aria-label={`Filter ${label.toLowerCase()}s`}
          />
        )}
        <Combobox.Options>
          <ScrollArea.Autosize mah={360} type="auto">
            {before > 0 && <More count={before} where="before" />}
            {shown.map((choice) => (
              <Combobox.Option
                key={choice.value}
                value={choice.value}
                active={choice.value === value}
                selected={choice.value === value}
                title={choice.hint}
              >
                <span className={css.item}>
                  <span className={choice.value === value ? textCss.strong : undefined}>
                    {choice.label}
                    {choice.badge && <small className={css.badge}>{choice.badge}</small>}
                  </span>
                  {choice.note && (
                    <small className={choice.tone && (choice.tone === 'bad' ? css.bad : css.busy)}>{choice.note}</small>
                  )}
                </span>
              </Combobox.Option>
            ))}
            {after > 0 && <More count={after} where="after" />}
            {found.length === 0 && <Combobox.Empty>No match.</Combobox.Empty>}
          </ScrollArea.Autosize>
        </Combobox.Options>
      </Combobox.Dropdown>
    </Combobox>
  )
}

function More({ count, where }: { count: number; where: string }) {
  return (
    <Combobox.Empty>
      {format(count, 'count')} more {where}: type to filter
    </Combobox.Empty>
  )
}
