import { expect, it } from 'vitest'
import { packageColors, packageLabel } from './packageColors'

const python = (name: string, framework = false) => ({ node_kind: 'python', package: name, framework })

it('colours packages in the order in which they come, what is Python itself alike', () => {
  const rows = [
    python('train'),
    python('torch', true),
    python('model'),
    python('numpy', true),
    python('built-in', true),
  ]
  const colorOf = packageColors(rows)
  expect(rows.map(colorOf)).toEqual(['slice0', 'slice3', 'slice2', 'slice8', 'overhead'])
  expect(colorOf({ node_kind: 'operator', package: 'aten' })).toBe('operator')
  expect(colorOf(python('never seen'))).toBe('other')
})

it('names them in the key', () => {
  expect(packageLabel(python('torch', true))).toBe('torch')
  expect(packageLabel(python('standard library', true))).toBe('Python interpreter')
  expect(packageLabel({ node_kind: 'runtime' })).toBe('runtime calls')
})
