// Changes of the time of work, as the server reads them: KIND:NAME=FACTOR.

import { shortKernel } from './names'

/** Titles by kind. */
export const KINDS = {
  operator: 'Operator',
  module: 'Module',
  kernel: 'Kernel',
  class: 'Kernel class',
  communication: 'Communication',
  copies: 'Copies',
  data_loading: 'Data loading',
  launches: 'Launches',
} as const
export type Kind = keyof typeof KINDS

/** Examples of names. */
export const EXAMPLES: Partial<Record<Kind, string>> = {
  operator: 'aten::mm',
  module: 'Block_0',
  kernel: '*gemm*',
  class: 'gemm',
}

const NAMED: readonly Kind[] = ['operator', 'module', 'kernel', 'class']

export const hasName = (kind: Kind) => NAMED.includes(kind)

export const scaleOf = (kind: Kind, name: string, factor: string) =>
  hasName(kind) ? `${kind}:${name.trim()}=${factor}` : `${kind}=${factor}`

/** The same work with another factor. */
export const withFactor = (scale: string, factor: string) => `${scale.slice(0, scale.lastIndexOf('='))}=${factor}`

/** A change with the short name of its kernel. */
export const shortScale = (scale: string) =>
  scale.replace(/^(kernel:)(.*)(=[^=]*)$/s, (_, kind, name, factor) => kind + shortKernel(name) + factor)

/** The title of a change with the short name of its kernel, which the change has as `kernel:NAME=FACTOR`. */
export function shortChange(title: string, change: string): string {
  const kernel = /^kernel:(.*)=[^=]*$/s.exec(change)?.[1]
  return kernel && title.startsWith(kernel) ? shortKernel(kernel) + title.slice(kernel.length) : title
}

/** Adds a change; it replaces another factor of the same work. */
export const added = (scales: readonly string[], scale: string) => [
  ...scales.filter((each) => withFactor(each, '') !== withFactor(scale, '')),
  scale,
]
