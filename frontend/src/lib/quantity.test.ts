import { expect, it } from 'vitest'
import { readQuantity, writeQuantity } from './quantity'

it('reads sizes and times', () => {
  const sizes = ['512', '512 B', '1.5 KiB', '2MB', '1 gib', '.5k', '1,024'].map((text) => readQuantity(text, 'bytes'))
  expect(sizes).toEqual([512, 512, 1536, 2 ** 21, 2 ** 30, 512, 1024])
  const times = ['7', '7 ns', '200us', '200 µs', '1.25 ms', '2 s'].map((text) => readQuantity(text, 'ns'))
  expect(times).toEqual([7, 7, 200_000, 200_000, 1_250_000, 2_000_000_000])
})

it('tells nothing from nonsense', () => {
  expect(readQuantity('  ', 'bytes')).toBe(null)
  for (const text of ['-1', '1e3', 'KiB', '5 ms', '1.2.3', '99999999 TiB'])
    expect(readQuantity(text, 'bytes'), text).toBe(undefined)
  expect(readQuantity('5 MiB', 'ns')).toBe(undefined)
})

it('writes what reads back as the same number', () => {
  expect([0, 512, 1000, 1536, 2 ** 21, 1_234_567].map((value) => writeQuantity(value, 'bytes'))).toEqual([
    '0 B',
    '512 B',
    '1000 B',
    '1.5 KiB',
    '2 MiB',
    '1234567 B',
  ])
  expect([999, 1500, 2_000_000_000].map((value) => writeQuantity(value, 'ns'))).toEqual(['999 ns', '1.5 µs', '2 s'])
  for (const value of [1, 1023, 1025, 2 ** 31 - 1, 123_456_789_012])
    for (const unit of ['bytes', 'ns'] as const) expect(readQuantity(writeQuantity(value, unit), unit)).toBe(value)
})
