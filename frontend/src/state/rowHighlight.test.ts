import { expect, it } from 'vitest'
import { decodeHit, encodeHit, hitTitle, rowState, tableOf } from './rowHighlight'
import { mergeHash, readHash } from './tensorboardHash'

/** Through the address bar and back. */
const through = (where: string[]) => decodeHit(readHash(mergeHash('', { hit: encodeHit(where) })).hit)

it('survives whatever stands in a name', () => {
  for (const name of [
    'aten::mm',
    'void f<int, 4>(a&b=c)',
    'a:b,c;"d" + 100% #e',
    'name in the middle',
    'x\u001fy',
    '行列',
    '',
  ]) {
    const where = [`name:${name}`, 'kind:operator']
    expect(through(where)).toEqual(where)
  }
})

it('takes several filters, and none', () => {
  const where = ['name:k', 'operator:aten::mm', 'grid:[1, 2, 3]', 'block:']
  expect(through(where)).toEqual(where)
  expect(decodeHit(undefined)).toEqual([])
  expect(decodeHit('no filter')).toEqual([])
  expect(decodeHit('steps:7')).toEqual([])
})

it('is called by what it is about', () => {
  expect(hitTitle(['kind:operator', 'name:aten::mm'])).toBe('aten::mm')
  expect(hitTitle(['module:Linear_0'])).toBe('Linear_0')
  expect(hitTitle(['kind:kernel'])).toBe('kind:kernel')
})

it('finds the way back to a row of a page that was never open', () => {
  expect(rowState('operators', '', '', ['name:aten::mm', 'kind:operator'], 'aten::mm')).toEqual({
    where: 'name:aten::mm',
    row: 'aten::mm',
  })
  expect(rowState('kernels', '', 'copies', ['name:m', 'kind:memcpy'], 'r').where).toBe('name:m\u001fkind:memcpy')
  expect(rowState('modules', 'table', '', ['module:A'], 'A')).toEqual({ where: 'module:A', row: 'A' })
  expect(rowState('modules', '', '', ['module:A'], '3')).toEqual({ search: 'A' })
  expect(rowState('operators', '', '', ['replayed_operator:a', 'replayed_shape:[]'], 'r').where).toBe(
    'name:a\u001finput_shape:[]',
  )
  expect(rowState('modules', '', '', ['replayed_module:A'], '3')).toEqual({ search: 'A' })
})

it('knows the table of an event by its kind', () => {
  expect(tableOf('aten::mm', 'operator')).toMatchObject({ view: 'operators', state: { row: 'aten::mm' } })
  expect(tableOf('gemm', 'kernel')).toMatchObject({ view: 'kernels', state: { where: 'name:gemm' } })
  expect(tableOf('Memcpy', 'memcpy')?.state).toEqual({
    group: 'copies',
    where: 'name:Memcpy',
    row: 'Memcpy\u001ememcpy',
  })
  expect(tableOf('nn.Module: Linear_0', 'module')?.state).toMatchObject({ form: 'table', row: 'Linear_0' })
  expect(tableOf('cudaLaunchKernel', 'runtime')).toMatchObject({ view: 'launches', state: { row: 'cudaLaunchKernel' } })
  expect(tableOf('f.py(1): f', 'python')).toBeNull()
})
