import { expect, it } from 'vitest'
import type { Tree } from '../api/payloads'
import { frameLabels } from './frameLabels'

const labels = (...names: string[]) =>
  frameLabels({
    rows: names.map((name) => ({ name })),
    parent: names.map((_, i) => i - 1),
    label_column: 'name',
  } as unknown as Tree)

it('names compiled code by the module around it', () => {
  const graph = '## Call CompiledFxGraph fi7h5aadt4hmibvsqxneey4l5wnjgj6xdhppisrf4owk4wfpu4md ##'
  expect(labels('nn.Module: SD3_0', 'Torch-Compiled Region: 0/1', graph)).toEqual([
    'nn.Module: SD3_0',
    'Torch-Compiled Region: 0/1',
    'compiled SD3_0',
  ])
  expect(labels('Torch-Compiled Region: 0/1', graph)[1]).toBe('compiled region 0/1')
  expect(labels(graph)).toEqual([graph])
})

it('leaves out the folders of packages and of the interpreter', () => {
  expect(labels('/home/me/env/lib/python3.9/site-packages/torch/nn/modules/module.py(10): f')).toEqual([
    'torch/nn/modules/module.py(10): f',
  ])
  expect(labels('/home/me/env/lib/python3.9/threading.py(10): run')).toEqual(['threading.py(10): run'])
  expect(labels('/home/me/train/ema.py(10): step')).toEqual(['me/train/ema.py(10): step'])
})
