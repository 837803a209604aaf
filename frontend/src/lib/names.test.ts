import { expect, it } from 'vitest'
import { elided, labelsOf, shortenMiddle, shortKernel, withEnds, withoutShared } from './names'

it.each([
  ['sm80_xmma_gemm_f16f16_f16f32', 'sm80_xmma_gemm_f16f16_f16f32'],
  ['sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x128x64_warpgroupsize1x1x1', 'gemm 64x128 bf16'],
  ['Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_MT256x32x64_MI16x16x1_SN', 'gemm 256x32 bf16'],
  ['volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1', 'conv winograd 128x128 f32'],
  ['volta_sgemm_64x32_sliced1x4_tn', 'gemm 64x32 f32'],
  ['sm80_xmma_dgrad_implicit_gemm_indexed_tf32f32_nhwc_tilesize128x64x16_stage4', 'conv dgrad 128x64 tf32'],
  ['void pytorch_flash::flash_fwd_kernel<Traits<64, 128>, false>(pytorch_flash::Flash_fwd_params)', 'flash_fwd'],
  ['void at::native::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)', 'layer_norm'],
  ['void splitKreduce_kernel<float, float>(cublasSplitKParams<float>, float const*)', 'splitKreduce'],
  [
    'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, at::detail::Array<char*, 3> >(int, at::native::AddFunctor<float>, at::detail::Array<char*, 3>)',
    'elementwise [add]',
  ],
  [
    'void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>(float*, float const*, int)',
    'softmax_warp_forward',
  ],
  [
    'void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct)',
    'bn_fw_tr_1C11_kernel_NCHW',
  ],
  ['void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(cutlass_80_x::Params)', 'gemm 128x128'],
  [
    'void at::native::vectorized_elementwise_kernel<4, at::native::clamp_min_scalar_kernel_impl(at::TensorIterator&, c10::Scalar)::{lambda()#1}::operator()() const::{lambda(float)#1}, at::detail::Array<char*, 2> >(int, at::native::clamp_min_scalar_kernel_impl(at::TensorIterator&, c10::Scalar)::{lambda()#1}::operator()() const::{lambda(float)#1}, at::detail::Array<char*, 2>)',
    'elementwise [clamp_min_scalar]',
  ],
  ['enumerate(DataLoader)#_Iter.__next__', 'enumerate(DataLoader)#_Iter.__next__'],
  ['std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(cublasGemvParams<float>)', 'gemvx'],
  ['ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)', 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'],
  ['Memcpy HtoD (Pinned -> Device)', 'Memcpy HtoD (Pinned -> Device)'],
  ['aten::mm', 'aten::mm'],
  ['(no operator)', '(no operator)'],
  ['train.py(88): <module>', 'train.py(88): <module>'],
])('%s is short for people', (name, short) => expect(shortKernel(name)).toBe(short))

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
