// The timeline's display options; stored in the URL.
import { Checkbox, Radio } from '@mantine/core'
import { useCallback, useMemo } from 'react'
import type { ColorBy } from '../../canvas/timeline/colors'
import type { WheelStyle } from '../../lib/wheel'
import { MenuButton } from '../../parts/menuButton'
import { setPrefs, usePrefs } from '../../state/prefs'
import { joinList, splitList } from '../../state/tensorboardHash'
import { setRoute, useRoute } from '../../state/urlState'
import type { Hiding } from './footer'
import toolbarCss from '../../parts/toolbar.module.css'

const MODES: readonly ColorBy[] = ['kernel', 'kind', 'name', 'module', 'class']

/** Ranges and kernels are coloured by name. */
export const defaultColors = (onlyRanges: boolean, hasDevices: boolean): ColorBy =>
  onlyRanges ? 'name' : hasDevices ? 'kernel' : 'kind'

/** Hidden entries of the legend; stored in the URL. */
export function useHidden(): Hiding {
  const { off } = useRoute()
  const hidden = useMemo(() => new Set(splitList(off)), [off])
  const onHide = useCallback(
    (key?: string) => {
      const next = new Set(key === undefined ? [] : hidden)
      if (key !== undefined && !next.delete(key)) next.add(key)
      setRoute({ off: joinList([...next]) })
    },
    [hidden],
  )
  return useMemo(() => ({ hidden, onHide }), [hidden, onHide])
}

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
      <Checkbox {...flag('path')} label="Critical path" />
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

/** Wheel behavior; stored in the browser. */
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
      label="Colors"
      value={useColors(usual)}
      onChange={(value) => setRoute({ colors: value === usual ? '' : value, off: '' })}
    >
      <div className={toolbarCss.menu}>
        <Radio size="xs" value="kernel" label="Kernels by name" disabled={!hasDevices} />
        <Radio size="xs" value="kind" label="By kind" />
        <Radio size="xs" value="class" label="By kernel class" disabled={!hasDevices} />
        <Radio size="xs" value="name" label="By name" />
        <Radio size="xs" value="module" label="By module" disabled={!hasModules} />
      </div>
    </Radio.Group>
  )
}
