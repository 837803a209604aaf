// The display and export menus of stacks.

import { Button, Radio } from '@mantine/core'
import { type Query, stacksUrl } from '../../api/client'
import { MenuButton } from '../../parts/menuButton'
import { setRoute } from '../../state/urlState'
import { Switch } from '../../widgets/choice'
import toolbarCss from '../../parts/toolbar.module.css'

interface Group {
  key: string
  label: string
  options: { value: string; label: string }[]
}

/** URL value of *all frames*. */
export const ALL_FRAMES = 'none'

const FOLD: Group = {
  key: 'fold',
  label: 'Framework frames',
  options: [
    { value: 'framework', label: 'Merged into their caller' },
    { value: ALL_FRAMES, label: 'All frames' },
  ],
}
const ORDER: Group = {
  key: 'order',
  label: 'Stack order',
  options: [
    { value: '', label: 'Merge identical stacks' },
    { value: 'time', label: 'By time' },
  ],
}
const COLOURS: Group = {
  key: 'colour',
  label: 'Colors',
  options: [
    { value: '', label: 'By package' },
    { value: 'kind', label: 'By kind' },
  ],
}
const FILES = [
  {
    format: 'folded',
    label: 'Folded stacks',
    title: 'Text for flamegraph.pl and similar tools; all stacks, in nanoseconds',
  },
  { format: 'speedscope', label: 'speedscope', title: 'JSON for speedscope; all stacks, one profile per thread' },
]

/** Another form has other rows, and searches in other columns. */
const chooseForm = (form: string) =>
  setRoute({ form: form === 'tree' ? '' : form, row: '', zoom: '', search: '', sort: '', desc: '', cols: '' }, true)

export function FormControl({ byFunction }: { byFunction: boolean }) {
  return (
    <Switch
      size="sm"
      label="View"
      value={byFunction ? 'functions' : 'tree'}
      onChange={chooseForm}
      options={{ tree: 'Flame graph', functions: 'Functions' }}
    />
  )
}

/** `onChange` gets the key of the URL and its value; functions have neither order nor colours. */
export function StacksShowMenu(props: {
  values: Readonly<Record<string, string>>
  byFunction: boolean
  onChange: (key: string, value: string) => void
}) {
  const { values, byFunction, onChange } = props
  return (
    <MenuButton label="Display" position="bottom-start">
      {(byFunction ? [FOLD] : [FOLD, ORDER, COLOURS]).map(({ key, label, options }) => (
        <Radio.Group
          key={key}
          size="xs"
          label={label}
          value={values[key] ?? ''}
          onChange={(value) => onChange(key, value)}
        >
          <div className={toolbarCss.menu}>
            {options.map((option) => (
              <Radio key={option.value} size="xs" {...option} />
            ))}
          </div>
        </Radio.Group>
      ))}
    </MenuButton>
  )
}

export function StacksSaveMenu({ query }: { query: Query }) {
  return (
    <MenuButton label="Save as" size="compact-xs">
      {FILES.map(({ format, label, title }) => (
        <Button
          key={format}
          size="xs"
          variant="default"
          component="a"
          href={stacksUrl({ ...query, format })}
          title={title}
          download
        >
          {label}
        </Button>
      ))}
    </MenuButton>
  )
}
