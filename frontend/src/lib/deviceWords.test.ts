import { expect, test } from 'vitest'
import type { View } from '../api/payloads'
import { inSentence, inWords, setDeviceWord, viewInWords } from './deviceWords'

test('titles within a sentence keep their acronyms', () => {
  expect(['GPU total', 'P95', 'Mean', 'Sum of waits', ''].map(inSentence)).toEqual([
    'GPU total',
    'P95',
    'mean',
    'sum of waits',
    '',
  ])
})

test('host and device become CPU and the word of the profile', () => {
  expect(inWords('Host self')).toBe('CPU self')
  expect(inWords('Device total')).toBe('GPU total')
  setDeviceWord('NPU')
  expect(inWords('Time while the host waits for a device')).toBe('Time while the CPU waits for a NPU')
  const metric = { key: 'device_self_ns', title: 'Device self', unit: 'ns', definition: 'On all devices.', window: '' }
  const view = {
    payloads: {
      operators: { kind: 'table', columns: [{ metric, hidden: false, share: false }], rows: [{ name: 'device' }] },
      device_self: { kind: 'breakdown', title: 'Device self time', subtitle: '', parts: [] },
    },
  } as unknown as View
  expect(viewInWords(view).payloads).toMatchObject({
    operators: { columns: [{ metric: { title: 'NPU self', definition: 'On all NPUs.' } }], rows: [{ name: 'device' }] },
    device_self: { title: 'NPU self time' },
  })
  setDeviceWord('GPU')
})
