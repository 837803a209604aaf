// Inline icons.
import type { ReactNode } from 'react'

function Icon({ children, size = 18 }: { children: ReactNode; size?: number }) {
  return (
    <svg
      viewBox="0 0 24 24"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      aria-hidden="true"
    >
      {children}
    </svg>
  )
}

const path = (d: string, size?: number) => (
  <Icon size={size}>
    <path d={d} strokeLinecap="round" strokeLinejoin="round" />
  </Icon>
)

export const CopyIcon = () => path('M9 9h11v11H9zM5 15H4V4h11v1', 15)
export const OpenFileIcon = () => path('M4 19V5h6l2 3h8v11zM12 17v-6M9 13.5l3-3 3 3')
export const CheckIcon = () => path('M5 12l5 5 9-10', 15)
export const CloseIcon = () => path('M6 6l12 12M18 6L6 18', 15)
export const SearchIcon = () => path('M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16.5 16.5L21 21', 15)
export const ChevronDown = () => path('M6 9l6 6 6-6', 14)
export const UpIcon = () => path('M6 15l6-6 6 6', 13)
export const DownIcon = () => path('M6 9l6 6 6-6', 13)
export const OpenAllIcon = () => path('M7 9l5-5 5 5M7 15l5 5 5-5', 14)
export const CloseAllIcon = () => path('M7 4l5 5 5-5M7 20l5-5 5 5', 14)
export const PinIcon = () => path('M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v6', 13)
export const HideIcon = () =>
  path('M3 3l18 18M10 6a9 9 0 0 1 11 6 12 12 0 0 1-2 3M7 7a12 12 0 0 0-4 5 9 9 0 0 0 13 5M10 10a3 3 0 0 0 4 4', 13)
export const DragIcon = () => path('M9 6v.01M15 6v.01M9 12v.01M15 12v.01M9 18v.01M15 18v.01', 13)
export const BookmarkIcon = () => path('M7 4h10v16l-5-4-5 4z', 15)
export const ChevronRight = () => path('M9 6l6 6-6 6', 14)
export const ColumnsIcon = () => path('M4 5h16v14H4zM10 5v14M15 5v14', 16)
export const DownloadIcon = () => path('M12 4v11M7 11l5 5 5-5M5 20h14', 16)
export const LinkIcon = () =>
  path('M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1', 16)
export const InfoIcon = () => path('M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 11v5M12 8v.01', 16)
export const HelpIcon = () =>
  path('M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M12 16.5v.01', 16)
export const EditorIcon = () => path('M8 6l-5 6 5 6M16 6l5 6-5 6', 15)
export const GearIcon = () =>
  path(
    'M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM12 3v3M12 18v3M3 12h3M18 12h3M5.6 5.6l2.1 2.1M16.3 16.3l2.1 2.1M18.4 5.6l-2.1 2.1M7.7 16.3l-2.1 2.1',
    16,
  )
export const SwapIcon = () => path('M4 8h15M15 4l4 4-4 4M20 16H5M9 12l-4 4 4 4', 16)
export const TimelineIcon = () => path('M3 5h10v4H3zM9 10h12v4H9zM5 15h9v4H5z')

/** By page. */
const NAV: Record<string, string> = {
  overview: 'M4 11l8-7 8 7v9h-5v-6H9v6H4z',
  serving: 'M4 5h16v10h-8l-5 4v-4H4zM8 10h.01M12 10h.01M16 10h.01',
  timeline: 'M3 5h10v4H3zM9 10h12v4H9zM5 15h9v4H5z',
  stacks: 'M3 4h18v4H3zM3 10h11v4H3zM16 10h5v4h-5zM3 16h6v4H3z',
  idle: 'M7 3h10M7 21h10M8 3v4l4 5-4 5v4M16 3v4l-4 5 4 5v4',
  operators: 'M7 7h10v10H7zM3.5 9.5H7M3.5 14.5H7M17 9.5h3.5M17 14.5h3.5M9.5 3.5V7M14.5 3.5V7M9.5 17v3.5M14.5 17v3.5',
  model: 'M12 4l9 4.5-9 4.5-9-4.5zM3 13l9 4.5 9-4.5',
  memory: 'M3 5h8v5H3zM13 5h8v5h-8zM3 14h4v5H3zM9 14h12v5H9z',
  ranks: 'M5 5h5v5H5zM14 5h5v5h-5zM5 14h5v5H5zM14 14h5v5h-5z',
  compile: 'M9 4H7v6l-3 2 3 2v6h2M15 4h2v6l3 2-3 2v6h-2M10 12l4-3v6z',
  query: 'M4 6h16M4 12h10M4 18h7M17 15l4 3-4 3z',
  compare: 'M7 4v16M4 17l3 3 3-3M17 20V4M14 7l3-3 3 3',
}

export const NavIcon = ({ page }: { page: string }) => path(NAV[page] ?? 'M5 5h14v14H5zM5 10h14')
