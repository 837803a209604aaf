import { expect, test } from 'vitest'
import { shareWidth } from './shareWidth'

test.each([
  { needs: [50, 80], room: 200, least: 10, given: [50, 80] },
  { needs: [50, 300, 300], room: 250, least: 10, given: [50, 100, 100] },
  { needs: [300, 90, 300], room: 290, least: 10, given: [100, 90, 100] },
  { needs: [300, 5, 300], room: 40, least: 30, given: [30, 5, 30] },
  { needs: [], room: 40, least: 30, given: [] },
])('$needs share $room: $given', ({ needs, room, least, given }) => {
  expect(shareWidth(needs, room, least)).toEqual(given)
})
