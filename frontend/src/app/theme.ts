// Mantine's theme, and the colour scheme of the page around this one or of the system.
import { Button, createTheme, Popover, Tooltip } from '@mantine/core'
import { useEffect, useState } from 'react'
import { BLUES, GREYS, LIGHT, SANS } from '../lib/tokens'

type Scheme = 'light' | 'dark'

function hostBody(): HTMLElement | null {
  try {
    return window.parent === window ? null : window.parent.document.body
  } catch {
    return null
  }
}

export function useScheme(): Scheme {
  const host = hostBody()
  const media = window.matchMedia('(prefers-color-scheme: dark)')
  const read = (): Scheme => ((host ? host.classList.contains('dark-mode') : media.matches) ? 'dark' : 'light')
  const [scheme, setScheme] = useState<Scheme>(read)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the host never changes while the page lives
  useEffect(() => {
    const update = () => setScheme(read())
    if (!host) {
      media.addEventListener('change', update)
      return () => media.removeEventListener('change', update)
    }
    const observer = new MutationObserver(update)
    observer.observe(host, { attributes: true, attributeFilter: ['class'] })
    return () => observer.disconnect()
  }, [])
  return scheme
}

export const theme = createTheme({
  primaryColor: 'trace',
  colors: { trace: BLUES, dark: GREYS },
  primaryShade: { light: 7, dark: 7 },
  fontFamily: SANS,
  fontFamilyMonospace: LIGHT.mono,
  respectReducedMotion: true,
  components: {
    Tooltip: Tooltip.extend({
      defaultProps: {
        openDelay: 250,
        multiline: true,
        maw: 340,
        transitionProps: { duration: 100 },
        events: { hover: true, focus: true, touch: true },
        color: 'var(--tt-tip)',
      },
    }),
    Button: Button.extend({ defaultProps: { fw: 500 } }),
    Popover: Popover.extend({ defaultProps: { transitionProps: { duration: 100 }, shadow: 'sm' } }),
  },
})
