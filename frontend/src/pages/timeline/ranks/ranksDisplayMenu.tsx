// Display options of a multi-rank timeline; stored in the URL.
import { Checkbox, Radio } from '@mantine/core'
import type { Detail } from '../../../canvas/ranks/tracks'
import { MenuButton } from '../../../parts/menuButton'
import { setRoute, useRoute } from '../../../state/urlState'
import { ColorsChoice } from '../displayMenu'
import toolbarCss from '../../../parts/toolbar.module.css'
import textCss from '../../../widgets/text.module.css'
import css from './ranksMenu.module.css'

export const useDetail = (): Detail => (useRoute().detail === 'all' ? 'all' : 'streams')
export const useLinks = (): boolean => useRoute().links !== 'none'

export function RanksDisplayMenu({ hasModules, hasDevices }: { hasModules: boolean; hasDevices: boolean }) {
  const detail = useDetail()
  const links = useLinks()
  return (
    <MenuButton label="Display">
      <Checkbox
        size="xs"
        checked={links}
        onChange={() => setRoute({ links: links ? 'none' : '' })}
        label="Link collectives across ranks"
      />
      <Radio.Group
        size="xs"
        label="Tracks of an open rank"
        value={detail}
        onChange={(next) => setRoute({ detail: next === 'streams' ? '' : next })}
      >
        <div className={toolbarCss.menu}>
          <Radio size="xs" value="streams" label="Device streams" />
          <Radio size="xs" value="all" label="All" />
        </div>
      </Radio.Group>
      <ColorsChoice hasModules={hasModules} hasDevices={hasDevices} usual="kind" />
      <p className={`${textCss.mute} ${css.alone}`}>
        Flow arrows, gaps, charts and pinned tracks are available with a single rank.
      </p>
    </MenuButton>
  )
}
