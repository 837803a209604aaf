import { expect, test } from 'vitest'
import type { Breakdown, Table } from '../api/payloads'
import { COPY, classesOf, classOf } from './kernelClasses'

const rows = (...names: string[]) => ({ rows: names.map((name) => ({ name, class: 'gemm' })) }) as unknown as Table
const donut = { parts: [{ metric: { key: 'gemm', title: 'GEMM' } }] } as unknown as Breakdown
const CLASSES = classesOf([rows('a', 'b'), rows('c')], donut)

test('all pages of the table count, under the titles of the donut', () => {
  expect([...CLASSES.keys()]).toEqual(['a', 'b', 'c'])
  expect(CLASSES.get('c')).toEqual({ key: 'gemm', title: 'GEMM' })
})

test('only what runs on a device has a class', () => {
  expect(classOf(CLASSES, 'kernel', 'a')?.key).toBe('gemm')
  expect(classOf(CLASSES, 'communication', 'a')?.key).toBe('gemm')
  expect(['memcpy', 'memset'].map((kind) => classOf(CLASSES, kind, 'a'))).toEqual([COPY, COPY])
  expect(['operator', 'sync', 'device_annotation'].map((kind) => classOf(CLASSES, kind, 'a'))).toEqual([
    undefined,
    undefined,
    undefined,
  ])
  expect(classOf(CLASSES, 'kernel', 'not sent')).toBeUndefined()
})
