// The timeline's display options; stored in the URL.
import { Checkbox, Radio } from '@mantine/core'
import type { ColorBy } from '../../canvas/timeline/colors'
import type { WheelStyle } from '../../lib/wheel'
import { MenuButton } from '../../parts/menuButton'
import { setPrefs, usePrefs } from '../../state/prefs'
import { setRoute, useRoute } from '../../state/urlState'
import toolbarCss from '../../parts/toolbar.module.css'

const MODES: readonly ColorBy[] = ['kind', 'name', 'module', 'class']

/** Ranges are coloured by name. */
export const defaultColors = (onlyRanges: boolean): ColorBy => (onlyRanges ? 'name' : 'kind')

export function useColors(usual: ColorBy): ColorBy {
  const { colors } = useRoute()
  return MODES.find((mode) => mode === colors) ?? usual
}

export function DisplayMenu(props: { hasModules: boolean; hasDevices: boolean; usual: ColorBy }) {
  const { hasDevices } = props
  const route = useRoute()
  const flag = (key: string) => ({
    size: 'xs',
    checked: route[key] === '1',
    onChange: () => setRoute({ [key]: route[key] === '1' ? '' : '1' }),
  })
  return (
    <MenuButton label="Display">
      <Checkbox {...flag('flows')} label="Flow arrows" />
      {hasDevices && <Checkbox {...flag('gaps')} label="Stream gaps and CPU activity" />}
      <Radio.Group
        size="xs"
        label="Charts"
        value={route.charts ?? 'main'}
        onChange={(value) => setRoute({ charts: value === 'main' ? '' : value })}
      >
        <div className={toolbarCss.menu}>
          <Radio size="xs" value="main" label="Utilization, launch queue, memory" />
          <Radio size="xs" value="all" label="All, including recorded counters" />
          <Radio size="xs" value="none" label="None" />
        </div>
      </Radio.Group>
      <ColorsChoice {...props} />
      <WheelChoice />
    </MenuButton>
  )
}

/** What the wheel does; stored in the browser. */
export function WheelChoice() {
  const { wheel } = usePrefs()
  return (
    <Radio.Group
      size="xs"
      label="Wheel"
      value={wheel}
      onChange={(value) => setPrefs({ wheel: value as WheelStyle, wheelHinted: true })}
    >
      <div className={toolbarCss.menu}>
        <Radio size="xs" value="scroll" label="Scrolls (as in Perfetto; Ctrl + wheel zooms)" />
        <Radio size="xs" value="zoom" label="Zooms (Shift + wheel scrolls)" />
      </div>
    </Radio.Group>
  )
}

/** Event colouring; the default is not stored in the URL. */
export function ColorsChoice(props: { hasModules: boolean; hasDevices: boolean; usual: ColorBy }) {
  const { hasModules, hasDevices, usual } = props
  return (
    <Radio.Group
      size="xs"
      label="Colours"
      value={useColors(usual)}
      onChange={(value) => setRoute({ colors: value === usual ? '' : value })}
    >
      <div className={toolbarCss.menu}>
        <Radio size="xs" value="kind" label="By kind" />
        <Radio size="xs" value="name" label="By name" />
        <Radio size="xs" value="module" label="By module" disabled={!hasModules} />
        <Radio size="xs" value="class" label="By kernel class" disabled={!hasDevices} />
      </div>
    </Radio.Group>
  )
}
