// A toolbar button with a menu.
import { Button, type ButtonProps, Popover, type PopoverProps } from '@mantine/core'
import type { ReactNode } from 'react'
import toolbarCss from './toolbar.module.css'

export function MenuButton(props: {
  label: string
  size?: ButtonProps['size']
  position?: PopoverProps['position']
  children: ReactNode
}) {
  const { label, size = 'sm', position = 'bottom-end', children } = props
  return (
    <Popover position={position} withinPortal trapFocus>
      <Popover.Target>
        <Button size={size} variant="default">
          {label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={toolbarCss.menu}>{children}</div>
      </Popover.Dropdown>
    </Popover>
  )
}
