// Local paths of recorded source files (TORCH_TRACE_PATHS), for editor links.
import type { PathMapping } from '../api/payloads'

const slashed = (path: string) => path.replaceAll('\\', '/')
/** Windows ignores case in names. */
const comparable = (path: string) => (/^[A-Za-z]:/.test(path) ? slashed(path).toLowerCase() : slashed(path))
const bare = (folder: string) => folder.replace(/[\\/]+$/, '')

let current: readonly PathMapping[] = []

export function setPathMappings(mappings: readonly PathMapping[]): void {
  current = mappings
}

/** The longest recorded folder that contains the path is replaced with its local folder. */
export function localPath(path: string, mappings = current): string {
  let longest = -1
  let found = path
  for (const { recorded, local } of mappings) {
    const folder = bare(recorded)
    if (folder.length <= longest || !`${comparable(path)}/`.startsWith(`${comparable(folder)}/`)) continue
    longest = folder.length
    const rest = path.slice(folder.length)
    found = bare(local) + (local.includes('\\') ? rest.replaceAll('/', '\\') : slashed(rest))
  }
  return found
}
