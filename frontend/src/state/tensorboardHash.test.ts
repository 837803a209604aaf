import { expect, it } from 'vitest'
import { isOtherTab, joinList, mergeHash, readHash, splitList } from './tensorboardHash'

it('reads and writes what it wrote', () => {
  const values = {
    view: 'kernels',
    where: joinList(['name:void f<int, 4>(a&b=c)', 'operator:aten::mm']),
    search: '/a+b c/',
  }
  expect(readHash(mergeHash('', values))).toEqual(values)
  expect(splitList(readHash(mergeHash('', values)).where)).toEqual(['name:void f<int, 4>(a&b=c)', 'operator:aten::mm'])
})

it('keeps what belongs to others, in order', () => {
  const hash = '#torch_trace&runSelectionState=e30%3D&p.torch_trace.view=overview&p.scalars.x=1'
  expect(mergeHash(hash, { view: 'timeline' })).toBe(
    '#torch_trace&runSelectionState=e30%3D&p.scalars.x=1&p.torch_trace.view=timeline',
  )
  expect(mergeHash('#p.scalars.x=1', { view: '' })).toBe('#torch_trace&p.scalars.x=1')
})

it('knows when another tab is open', () => {
  expect(isOtherTab('#scalars&x=1')).toBe(true)
  expect(isOtherTab('#torch_trace')).toBe(false)
  expect(isOtherTab('')).toBe(false)
})

it('survives broken escapes', () =>
  expect(readHash('#torch_trace&p.torch_trace.run=%E0%A4%A')).toEqual({ run: '%E0%A4%A' }))
