// Kernel classes (GEMM, attention, ...) by kernel name.
import type { Breakdown, Table } from '../api/payloads'

interface KernelClass {
  /** Key for colours and filters. */
  key: string
  title: string
}

/** By the name of the kernel, as recorded. */
export type KernelClasses = ReadonlyMap<string, KernelClass>

/** Copies and memsets of the driver are no kernels; they look like kernels that copy. */
export const COPY: KernelClass = { key: 'copy', title: 'Copy' }
const COPIES = new Set(['memcpy', 'memset'])
const KERNELS = new Set(['kernel', 'communication'])

export const isKernel = (category: string) => KERNELS.has(category)

/** The class of an event; none on the host, of waits and annotations, and while the names have not come. */
export function classOf(classes: KernelClasses, category: string, name: string): KernelClass | undefined {
  if (COPIES.has(category)) return COPY
  return isKernel(category) ? classes.get(name) : undefined
}

/** Pages of the table of kernels, and the parts that call the classes by their titles. */
export function classesOf(tables: readonly Table[], donut: Breakdown): KernelClasses {
  const titles = new Map(donut.parts.map(({ metric }) => [metric.key, metric.title]))
  return new Map(
    tables
      .flatMap(({ rows }) => rows)
      .map((row) => {
        const key = String(row.class)
        return [String(row.name), { key, title: titles.get(key) ?? key }]
      }),
  )
}
