import { expect, test } from 'vitest'
import { workCategories } from './bars'

const categories = ['unknown', 'operator', 'annotation', 'python', 'runtime', 'overhead', 'window']

test('steps, Python and the profiler are no work of the host', () => {
  expect(workCategories({ busy: [0, 0.5], categories })).toEqual([true, true, false, false, true, false, false])
})

test('where nothing else is known to be work, all of it counts', () => {
  expect(workCategories({ busy: [0, 0], categories })).toEqual(categories.map(() => true))
})
