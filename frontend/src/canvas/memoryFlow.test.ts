import { describe, expect, it } from 'vitest'
import type { MemoryFlowMap } from '../api/payloads'
import { addressAt, drawingOrder, FlowAxes, neighbour, SIDE, tensorAt, tensorsWithLabels } from './memoryFlow'

/** Tensors (made, released, offset, size) of a picture of 1000 ns and 400 bytes. */
function flowOf(...tensors: [number, number, number, number][]): MemoryFlowMap {
  const column = (at: number) => tensors.map((tensor) => tensor[at])
  return {
    kind: 'memory_flow',
    name: 'flow',
    title: '',
    start_ns: 0,
    end_ns: 1000,
    low_bytes: 0,
    high_bytes: 400,
    first_ns: 0,
    last_ns: 1000,
    extent_bytes: 400,
    region_address: ['0x7f0000000000', '0xffffffffff000000'],
    region_bytes: [200, 190],
    region_offset: [0, 210],
    row: tensors.map((_, i) => 10 + i),
    created_ns: column(0),
    released_ns: column(1),
    is_released: tensors.map(() => true),
    offset: column(2),
    size_bytes: column(3),
    tensor: tensors.map((_, i) => i),
    operator: tensors.map(() => 0),
    layout: tensors.map(() => 0),
    tensors: tensors.map((_, i) => `tensor ${i}`),
    operators: ['ADD'],
    layouts: [''],
    hidden: 0,
    cell_columns: 1,
    cell_rows: 1,
    cell_column: [],
    cell_first: [],
    cell_end: [],
  }
}

/** A pixel is a nanosecond and a byte. */
const axesOf = (flow: MemoryFlowMap) => new FlowAxes({ flow, width: 1000 + SIDE.left + SIDE.right, height: 408 })
const at = (flow: MemoryFlowMap, ns: number, byte: number) =>
  tensorAt(axesOf(flow), drawingOrder(flow), SIDE.left + ns, 4 + byte)

describe('a picture of tensors', () => {
  it('places them by life and address, and finds the way back', () => {
    const axes = axesOf(flowOf([100, 300, 50, 100]))
    expect(axes.rectangle(0)).toEqual({ x: SIDE.left + 100, y: 54, width: 200, height: 100 })
    expect([axes.timeAt(SIDE.left + 100), axes.placeAt(54)]).toEqual([100, 50])
    expect([axes.timeAt(-50), axes.placeAt(9999)]).toEqual([0, 400])
  })

  it('cuts at its edges, and leaves nothing too small to be seen', () => {
    const axes = axesOf(flowOf([900, 5000, 390, 500], [10, 10, 0, 0]))
    expect(axes.rectangle(0)).toMatchObject({ width: 100, height: 10 })
    expect(axes.rectangle(1)).toMatchObject({ width: 1.5, height: 1.5 })
  })

  it('means what is drawn on top, and a small one near by', () => {
    const flow = flowOf([0, 500, 0, 100], [100, 200, 20, 30], [300, 400, 101, 1])
    expect(at(flow, 10, 10)).toBe(0)
    expect(at(flow, 150, 30)).toBe(1)
    expect(at(flow, 350, 99)).toBe(2)
    expect(at(flow, 350, 104)).toBe(2)
    expect(at(flow, 700, 300)).toBe(-1)
  })

  it('names a tensor where its name can be read', () => {
    const flow = flowOf([0, 500, 0, 100], [20, 60, 40, 20], [600, 620, 0, 100], [0, 500, 200, 5])
    expect([...tensorsWithLabels(axesOf(flow), drawingOrder(flow))]).toEqual([])
    const aside = flowOf([0, 500, 0, 100], [300, 340, 40, 20])
    expect([...tensorsWithLabels(axesOf(aside), drawingOrder(aside))]).toEqual([0])
  })

  it('is walked through in order of time, and of memory among those that are there together', () => {
    const flow = flowOf([0, 500, 100, 50], [10, 600, 200, 50], [20, 400, 0, 50], [700, 900, 160, 10], [30, 90, 100, 50])
    expect(neighbour(flow, -1, 'ArrowRight')).toBe(0)
    expect(neighbour(flow, 0, 'ArrowRight')).toBe(1)
    expect(neighbour(flow, 0, 'ArrowLeft')).toBe(0)
    expect(neighbour(flow, 4, 'ArrowRight')).toBe(4)
    expect(neighbour(flow, 0, 'ArrowUp')).toBe(2)
    expect(neighbour(flow, 0, 'ArrowDown')).toBe(4)
    expect(neighbour(flow, 4, 'ArrowDown')).toBe(1)
    expect(neighbour(flow, 3, 'ArrowUp')).toBe(3)
    expect(neighbour(flowOf(), -1, 'ArrowUp')).toBe(-1)
  })

  it('knows addresses larger than numbers hold exactly, and none between regions', () => {
    const flow = flowOf()
    expect(addressAt(flow, 16)).toBe('0x7f0000000010')
    expect(addressAt(flow, 205)).toBeNull()
    expect(addressAt(flow, 211)).toBe('0xffffffffff000001')
  })
})
