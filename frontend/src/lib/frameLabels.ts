// How the frames of a flame graph are called on the page.
import type { Tree } from '../api/payloads'
import { shortFrame } from './frames'

/** A compiled graph by its cache key, and generated code by its file. */
const COMPILED = /^## Call CompiledFxGraph \w+ ##$|\bc[a-z2-7]{40,}\.py\(\d+\): /

/** Labels of all nodes: frames without package folders, compiled code by the module or region around it. */
export function frameLabels(tree: Tree): string[] {
  const around: string[] = []
  return tree.rows.map((row, i) => {
    const name = String(row[tree.label_column] ?? '')
    const outer = around[tree.parent[i]] ?? ''
    const module = /^nn\.Module: (.+)/.exec(name)?.[1]
    const region = /^Torch-Compiled Region: (.+)/.exec(name)?.[1]
    around[i] = module ?? (region ? outer || `region ${region}` : outer)
    if (outer && COMPILED.test(name)) return `compiled ${outer}`
    return shortFrame(name)
  })
}
