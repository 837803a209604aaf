import { expect, it } from 'vitest'
import kernelNames from './kernelNames.json'
import { elided, labelsOf, shortenMiddle, shortKernel, withEnds, withoutShared } from './names'

it.each(kernelNames)('%s is short for people', (name, short) => expect(shortKernel(name)).toBe(short))

it('shortens in the middle', () => {
  expect(shortenMiddle('abcdef', 6)).toBe('abcdef')
  expect(shortenMiddle('abcdefghijklmnop', 9)).toBe('abcde…nop')
  expect(shortenMiddle('abcdef', 3)).toBe('ab…')
})

it('leaves out what names of a group share, never a part of a word or number', () => {
  const ranks = (make: (rank: number) => string) => Array.from({ length: 12 }, (_, rank) => make(rank))
  expect(withoutShared(ranks((rank) => `the-rank${rank}`))).toEqual(ranks((rank) => `…rank${rank}`))
  expect(withoutShared(ranks((rank) => `worker-${rank}-of-cluster`))).toEqual(ranks((rank) => `…${rank}…`))
  expect(withoutShared(ranks((rank) => `rank${'0'.repeat(9)}${rank}`))).toEqual(
    ranks((rank) => `rank${'0'.repeat(9)}${rank}`),
  )
  expect(withoutShared(['', ...ranks((rank) => `host-a-host-a-${rank}`)])[1]).toBe('host-a-host-a-0')
})

it('leaves names as they are where there is room for all of them', () => {
  const two = ['a-long-cluster_rank1', 'a-long-cluster_rank10']
  expect(withoutShared(two)).toEqual(two)
  expect(withoutShared(['only-one-long-worker-name'])).toEqual(['only-one-long-worker-name'])
  expect(withoutShared([])).toEqual([])
})

const TILES = ['MT256x192x64', 'MT64x64x64', 'MT64x64x128'].map(
  (tile) => `Cijk_Alik_Bljk_BBS_${tile}_MI16x16x1_${'x'.repeat(90)}`,
)

it('keeps names apart that are shortened', () => {
  const short = elided([...TILES, 'attn_fwd'], 40)
  expect([...short.values()]).toEqual([
    `Cijk_Alik_Bljk_BBS_MT256…${'x'.repeat(15)}`,
    `Cijk_Alik_…64x64x64_MI16x16x1_${'x'.repeat(9)}…`,
    `Cijk_Alik_…64x64x128_MI16x16x1_${'x'.repeat(8)}…`,
    'attn_fwd',
  ])
  expect(new Set(short.values()).size).toBe(4)
  expect(elided(TILES, 8).size).toBe(3) // too narrow to tell them apart
})

it('tells kernels of one short name apart by what follows', () => {
  const names = ['void f<float, 512, true>(int)', 'void f<float, 32, true>(int)', 'void g<int>(int)', 'plain']
  const labels = labelsOf(names, 30, shortKernel)
  expect(labels.get(names[0])).toEqual({ short: 'f', rest: '…512, true>(int)' })
  expect(labels.get(names[1])).toEqual({ short: 'f', rest: '…32, true>(int)' })
  expect(labels.get(names[2])).toEqual({ short: 'g', rest: names[2] })
  expect(labels.get('plain')).toEqual({ short: 'plain', rest: '' })
})

it('keeps what tells names of a legend apart in sight', () => {
  expect(withEnds(['GEMM', 'cudnn_volta_128x64_relu_small_nn_v1'])).toEqual([
    ['GEMM', ''],
    ['cudnn_volta_128x64_relu_s', 'mall_nn_v1'],
  ])
  const alike = withEnds(['kernel_of_tiles_MT64_and_so_on_WG4_1', 'kernel_of_tiles_MT128_and_so_on_WG4_1'])
  expect(alike.map(([, tail]) => tail)).toEqual(['MT64_and_so_o…', 'MT128_and_so_…'])
})
