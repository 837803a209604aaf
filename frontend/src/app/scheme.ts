// Light or dark, as TensorBoard or the system.
import { useEffect, useState } from 'react'

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
