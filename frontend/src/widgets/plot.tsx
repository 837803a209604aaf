// A chart's frame: loads ECharts, draws and resizes.
import { type RefObject, useEffect, useRef, useState } from 'react'
import css from './plot.module.css'

type Library = typeof import('./echarts')
type Instance = ReturnType<Library['init']>
type Option = Parameters<Instance['setOption']>[0]

let library: Promise<Library> | null = null
export const loadCharts = () => {
  library ??= import('./echarts')
  return library
}

export function usePlot(
  option: Option,
  onReady?: (instance: Instance, node: HTMLDivElement) => void,
): { frame: RefObject<HTMLDivElement | null>; chart: RefObject<Instance | null>; drawn: boolean } {
  const frame = useRef<HTMLDivElement>(null)
  const chart = useRef<Instance | null>(null)
  const [drawn, setDrawn] = useState(false)
  const latest = useRef({ option, onReady })
  latest.current = { option, onReady }

  useEffect(() => {
    let gone = false
    const observer = new ResizeObserver(() => {
      const { current } = chart
      const node = frame.current
      // The first report is the size that the chart was drawn with.
      if (current && node && (current.getWidth() !== node.clientWidth || current.getHeight() !== node.clientHeight))
        current.resize()
    })
    loadCharts().then(({ init }) => {
      const node = frame.current
      if (gone || !node) return
      chart.current = init(node)
      chart.current.setOption(latest.current.option)
      latest.current.onReady?.(chart.current, node)
      setDrawn(true)
      observer.observe(node)
    })
    return () => {
      gone = true
      observer.disconnect()
      chart.current?.dispose()
      chart.current = null
    }
  }, [])
  useEffect(() => {
    chart.current?.setOption(option, { notMerge: true })
  }, [option])
  return { frame, chart, drawn }
}

export function PlotFrame(props: {
  frame: RefObject<HTMLDivElement | null>
  drawn: boolean
  height: number | string
  label: string
  /** Names and colours of the lines, for an exported picture. */
  keys?: readonly [string, string][]
}) {
  const { frame, drawn, height, label, keys } = props
  return (
    <div
      ref={frame}
      data-testid="chart"
      data-keys={keys && JSON.stringify(keys)}
      className={css.chart}
      aria-busy={!drawn}
      style={{ height }}
      role="img"
      aria-label={label}
    />
  )
}

export function Plot(props: {
  option: Option
  height: number | string
  label: string
  onReady?: (instance: Instance, node: HTMLDivElement) => void
}) {
  const { frame, drawn } = usePlot(props.option, props.onReady)
  return <PlotFrame frame={frame} drawn={drawn} height={props.height} label={props.label} />
}
