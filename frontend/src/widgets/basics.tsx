// Basic parts: cards, values, metric help, copy.
import { ActionIcon, Button, type ButtonProps, Skeleton, Tooltip, useComputedColorScheme } from '@mantine/core'
import { type ComponentPropsWithoutRef, type ReactNode, useEffect, useRef, useState } from 'react'
import type { Figure, Metric, Scalar, Series, Unit } from '../api/payloads'
import { DARK, LIGHT, type Theme } from '../canvas/surface'
import { categoryColor, trendOf } from '../lib/color'
import { exactText, format, formatNumber, precise, type Scale, signed } from '../lib/format'
import { CheckIcon, CloseIcon, CopyIcon } from './icons'
import css from './basics.module.css'
import breakdownCss from './breakdown.module.css'
import layoutCss from './layout.module.css'
import textCss from './text.module.css'

export const useTheme = (): Theme =>
  useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark' ? DARK : LIGHT

export function Card(props: {
  title?: ReactNode
  subtitle?: ReactNode
  actions?: ReactNode
  className?: string
  children: ReactNode
  label?: string
}) {
  const { title, subtitle, actions, className, children, label } = props
  return (
    <section
      className={`${css.card} ${className ?? ''}`}
      aria-label={label ?? (typeof title === 'string' ? title : undefined)}
    >
      {title !== undefined && (
        <header className={css.cardHead}>
          <h2>
            <span className={css.cardTitle}>{title}</span>
            {subtitle && <small title={typeof subtitle === 'string' ? subtitle : undefined}>{subtitle}</small>}
          </h2>
          {actions}
        </header>
      )}
      {children}
    </section>
  )
}

const UNITS: Partial<Record<Unit, string>> = {
  ns: 'time',
  bytes: 'bytes (1 KiB = 1,024 bytes)',
  bytes_per_second: 'bytes per second (1 GB = 10⁹ bytes)',
  count: 'count',
  ratio: 'percent',
  watts: 'watts',
  celsius: 'degrees Celsius',
  hertz: 'frequency (1 MHz = 10⁶ Hz)',
  number: 'number',
}

export function MetricHelp({ metric }: { metric: Metric }) {
  const unit = UNITS[metric.unit]
  return (
    <div className={css.help}>
      <b>{metric.title}</b>
      {metric.definition && <div>{metric.definition}</div>}
      {(unit || metric.window) && (
        <div className={css.helpFoot}>
          {unit && <>Unit: {unit}</>}
          {unit && metric.window && ' · '}
          {metric.window && <>Window: {metric.window}</>}
        </div>
      )}
    </div>
  )
}

export function MetricName({ metric, children }: { metric: Metric; children?: ReactNode }) {
  return (
    <Tooltip label={<MetricHelp metric={metric} />}>
      <span className={css.metric} tabIndex={0}>
        {children ?? metric.title}
      </span>
    </Tooltip>
  )
}

const TRENDS = { slower: css.slower, faster: css.faster, same: '' }

/** The class that colours a change: time that was lost or won. Changes of other units only have a sign. */
export const trendClass = (value: Scalar, unit: Unit) =>
  unit === 'ns' && typeof value === 'number' ? TRENDS[trendOf(value)] : ''

/** A number with its unit; the exact value on hover. `change`: with its sign, in the colour of its direction. */
export function Value(props: {
  value: Scalar
  unit: Unit
  scale?: Scale
  bare?: boolean
  exact?: boolean
  change?: boolean
  /** Whether the change is grey. */
  isNoise?: boolean
}) {
  const { value, unit, scale, bare, exact, change, isNoise } = props
  const text = bare && scale ? formatNumber(value, scale) : exact ? precise(value, unit) : format(value, unit, scale)
  const plain = unit === 'text' || unit === 'code'
  const kind = unit === 'code' ? textCss.mono : plain ? textCss.num : textCss.amount
  return (
    <span
      className={change ? `${kind} ${isNoise ? textCss.mute : trendClass(value, unit)}` : kind}
      title={plain ? String(value ?? '') : exactText(value, unit)}
    >
      {change ? signed(text, value) : text}
    </span>
  )
}

export type LinkOf = (figure: Figure) => (() => void) | null

export const LinkOrText = ({ go, children }: { go?: (() => void) | null; children: ReactNode }) =>
  go ? <LinkButton onClick={go}>{children}</LinkButton> : children

/** A button that looks like a link. */
export const LinkButton = (props: Omit<ComponentPropsWithoutRef<'button'>, 'className'>) => (
  // Last, because a tooltip around it sets an empty class.
  <button type="button" {...props} className={textCss.link} />
)

export const CloseButton = ({
  label,
  size = 'sm',
  onClick,
}: {
  label: string
  size?: 'xs' | 'sm'
  onClick: () => void
}) => (
  <ActionIcon size={size} variant="subtle" color="gray" aria-label={label} onClick={onClick}>
    <CloseIcon />
  </ActionIcon>
)

/** Works without the clipboard API on insecure pages. */
async function copyText(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text)
      return true
    }
  } catch {
    // Refused: use the legacy way.
  }
  const area = document.createElement('textarea')
  area.value = text
  area.style.position = 'fixed'
  area.style.opacity = '0'
  document.body.append(area)
  area.select()
  let done = false
  try {
    done = document.execCommand('copy')
  } catch {
    done = false
  }
  area.remove()
  return done
}

export function useCopied(): [boolean, (text: string) => void] {
  const [copied, setCopied] = useState(false)
  const timer = useRef(0)
  useEffect(() => () => window.clearTimeout(timer.current), [])
  const copy = (text: string) => {
    copyText(text).then((done) => {
      if (!done) window.prompt('Copy:', text)
      setCopied(true)
      window.clearTimeout(timer.current)
      timer.current = window.setTimeout(() => setCopied(false), 1500)
    })
  }
  return [copied, copy]
}

export const SmallButton = (props: ButtonProps & ComponentPropsWithoutRef<'button'>) => (
  <Button size="compact-xs" variant="default" {...props} />
)

export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const [copied, copy] = useCopied()
  return <SmallButton onClick={() => copy(text())}>{copied ? 'Copied' : label}</SmallButton>
}

export function CopyIconButton({ text, label }: { text: string; label: string }) {
  const [copied, copy] = useCopied()
  return (
    <Tooltip label={copied ? 'Copied' : label}>
      <ActionIcon
        size="sm"
        variant="subtle"
        color="gray"
        aria-label={label}
        onClick={(event) => {
          event.stopPropagation()
          copy(text)
        }}
      >
        {copied ? <CheckIcon /> : <CopyIcon />}
      </ActionIcon>
    </Tooltip>
  )
}

/** The key of a chart's lines. `help`: their definitions on hover. */
export function LineKeys(props: { lines: Series['lines']; help?: boolean; className?: string; children?: ReactNode }) {
  const { lines, help, className = breakdownCss.key, children } = props
  return (
    <ul className={className}>
      {lines.map(({ metric, category }) => (
        <li key={metric.key}>
          <Swatch color={categoryColor(category)} />
          {help ? <MetricName metric={metric} /> : metric.title}
        </li>
      ))}
      {children}
    </ul>
  )
}

/** Buttons of one sign each: title, sign, action and whether it does anything now. */
export const SignButtons = ({ buttons }: { buttons: readonly [string, string, () => void, boolean][] }) =>
  buttons.map(([title, sign, action, enabled]) => (
    <Tooltip key={title} label={title}>
      <ActionIcon size="sm" variant="default" aria-label={title} disabled={!enabled} onClick={action}>
        {sign}
      </ActionIcon>
    </Tooltip>
  ))

export function Swatch({ color, idle }: { color: string; idle?: boolean }) {
  return (
    <i className={idle ? `${css.swatch} ${css.idle}` : css.swatch} style={idle ? undefined : { background: color }} />
  )
}

export const Placeholder = ({ height }: { height: number | string }) => <Skeleton height={height} radius="md" />

export const PagePlaceholder = () => (
  <>
    <div className={layoutCss.span12}>
      <Placeholder height={78} />
    </div>
    <div className={layoutCss.span8}>
      <Placeholder height={330} />
    </div>
    <div className={layoutCss.span4}>
      <Placeholder height={330} />
    </div>
  </>
)
