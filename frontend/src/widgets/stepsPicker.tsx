// The step picker.

import { Checkbox, Popover, ScrollArea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { StepInfo } from '../api/payloads'
import { format } from '../lib/format'
import { parseSteps, writeSteps } from '../lib/stepSelection'
import { LinkButton } from './basics'
import { ChevronDown } from './icons'
import pickerCss from './picker.module.css'
import css from './stepsPicker.module.css'
import textCss from './text.module.css'

const FILTER_FROM = 12

export function StepsPicker(props: {
  all: readonly StepInfo[]
  value: string
  none: string
  onChange: (steps: string) => void
}) {
  const { all, value, none, onChange } = props
  const [filter, setFilter] = useState('')
  const labels = all.map((step) => step.label)
  const chosen = parseSteps(value, labels)
  const text = value === '' ? (all.length === 0 ? 'none recorded' : `all ${all.length}`) : value
  if (all.length === 0) {
    return (
      <div
        className={`${pickerCss.pick} ${pickerCss.label}`}
        title="The trace has no steps; the full recording is used."
      >
        <small>Steps</small>
        <span>{text}</span>
      </div>
    )
  }
  const set = (next: ReadonlySet<string>) => onChange(next.size === 0 ? '' : writeSteps(next, labels))
  const toggle = (label: string) => {
    const next = new Set(chosen)
    if (!next.delete(label)) next.add(label)
    set(next)
  }
  const modes = [...new Set(all.map((step) => step.mode ?? ''))].filter((mode) => mode !== '')
  const ofMode = (mode: string) => new Set(all.filter((step) => step.mode === mode).map((step) => step.label))
  const found = all.filter((step) => step.label.includes(filter.trim()))
  return (
    <Popover position="bottom-start" withinPortal trapFocus onClose={() => setFilter('')}>
      <Popover.Target>
        <button type="button" className={value ? `${pickerCss.pick} ${pickerCss.set}` : pickerCss.pick}>
          <small>
            Steps<span className={textCss.sr}>: </span>
          </small>
          <span title={text}>
            <span className={pickerCss.chosen}>{text}</span>
            <ChevronDown />
          </span>
        </button>
      </Popover.Target>
      <Popover.Dropdown p={8}>
        {all.length >= FILTER_FROM && (
          <TextInput
            size="xs"
            mb={6}
            placeholder="Filter, or 5,7-9 and Enter"
            aria-label="Filter steps"
            value={filter}
            onChange={(event) => setFilter(event.currentTarget.value)}
            onKeyDown={(event) => {
              const typed = parseSteps(filter, labels)
              if (event.key === 'Enter' && typed.size > 0) set(typed)
            }}
          />
        )}
        <Checkbox size="xs" p={4} label={none} checked={value === ''} onChange={() => set(new Set())} />
        {modes.length > 0 && (
          <div className={css.modes}>
            <span className={textCss.mute}>Steps of</span>
            {modes.map((mode) => (
              <LinkButton key={mode} onClick={() => set(ofMode(mode))}>
                {mode}
              </LinkButton>
            ))}
          </div>
        )}
        <ScrollArea.Autosize mah={340} type="auto">
          {found.map((step) => (
            <div className={css.step} key={step.label}>
              <Checkbox
                size="xs"
                label={step.mode ? `Step ${step.label}, ${step.mode}` : `Step ${step.label}`}
                checked={chosen.has(step.label)}
                onChange={() => toggle(step.label)}
              />
              <span className={`${textCss.num} ${textCss.mute}`}>{format(step.end_ns - step.start_ns, 'ns')}</span>
              <LinkButton onClick={() => set(new Set([step.label]))}>only</LinkButton>
            </div>
          ))}
        </ScrollArea.Autosize>
      </Popover.Dropdown>
    </Popover>
  )
}
