import { expect, test } from 'vitest'
import type { Timeline } from '../../../api/payloads'
import { kindsOf } from './ranksFooter'

test('the colours that are explained are those that the ranks can show', () => {
  const head = (busy_is_device: boolean, ...ids: string[]) =>
    ({
      busy_is_device,
      has_modules: false,
      tracks: ids.map((id) => ({ id, is_device: !id.startsWith('cpu') })),
    }) as Timeline
  const labels = (...asked: Parameters<typeof kindsOf>) => kindsOf(...asked).map(([, label]) => label)
  const device = head(true, 'cpu/1/python')
  const host = head(false, 'cpu/1/calls')
  const all = ['kernel', 'communication', 'copy', 'operator', 'runtime']
  expect(labels([device, device], 'streams')).toEqual(['kernel', 'communication', 'copy'])
  expect(labels([host, host], 'streams')).toEqual(['communication', 'operator', 'annotation'])
  expect(labels([device, host], 'streams')).toEqual([...all, 'Python', 'annotation'])
  expect(labels([head(true)], 'all'), 'no track of the CPU').toEqual(all.slice(0, 3))
  expect(labels([head(true, '0/2/notes')], 'all')).toEqual([...all.slice(0, 3), 'annotation'])
})
