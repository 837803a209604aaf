// Readable names of kernels and operators.

const CLOSE: Record<string, string> = { '<': '>', '(': ')' }

/** A C++ name without `<...>` and `(...)`; also for truncated names. */
function withoutGroups(text: string): string {
  const open: string[] = []
  let out = ''
  for (let i = 0; i < text.length; i++) {
    const char = text[i]
    // `->` and `operator<` are no brackets.
    const symbol = text[i - 1] === '-' || text.slice(Math.max(0, i - 8), i) === 'operator'
    if (char in CLOSE && !(char === '<' && symbol)) open.push(CLOSE[char])
    else if (open.length === 0) out += char
    else if (char === open[open.length - 1] && !(char === '>' && symbol)) open.pop()
  }
  return out
}

/** Generic kernels: their template arguments name the work. */
const WRAPPERS: [RegExp, string][] = [
  [/(^|_)elementwise_kernel(_\w+)?$/, 'elementwise'],
  [/^reduce_kernel$/, 'reduce'],
  [/multi_tensor_apply_kernel$/, 'multi_tensor'],
  [/^(kernel|device_kernel|Kernel2?)$/, ''],
]
/** Template arguments that name the work: `AddFunctor`, `CUDAFunctor_add`, `GeluCUDAKernelImpl`, `sum_functor`. */
const FUNCTORS = [
  /^CUDAFunctor(?:OnSelf|OnOther)?_(\w+)$/,
  /^launch_(\w+)$/,
  /^(\w+?)(?:Functor|_functor|CUDAKernelImpl|_kernel_cuda|_kernel_impl|_cuda_kernel|_kernel)$/,
  /^(Mean|Norm\w*|Arg\w+|Welford|Min|Max)Ops$/,
]
const DULL = /^([AB]?Unary|Binary|BUnary|gpu|Reduce|multi_tensor_apply|(\w+_)?(elementwise|reduce)|.)$/

/** Tile and number format of a matrix product, by the naming of cuBLAS, CUTLASS, xmma and Tensile. */
const TILE = /(?:MT|tilesize|gemm_?|_)(\d{2,3})x(\d{2,3})(?=\D|$)/
const FORMATS: [RegExp, string][] = [
  [/(?:^|_)bf16|bf16_|_BB?S?_BH?_|_BBS_|_BSS_|_B_HA/, 'bf16'],
  [/e4m3|e5m2|fp8|_F8/i, 'fp8'],
  [/(?:^|_)f16|fp16|h\d*gemm|_HHS_|_HSS_|_H_/, 'f16'],
  [/tf32/, 'tf32'],
  [/(?:^|_)f32|sgemm|scudnn|_SB_|_S_B_/, 'f32'],
  [/dgemm|(?:^|_)f64|_DB_/, 'f64'],
  [/_i8|_s8|int8/, 'int8'],
]

/** `gemm 128x64 bf16`, `conv dgrad 128x128 f16`; null for other names and without a tile. */
function matrixProduct(name: string): string | null {
  const pass = /fprop|dgrad|wgrad|winograd/.exec(name)?.[0]
  const isConvolution = pass !== undefined || name.includes('scudnn_')
  if (!isConvolution && !/gemm|^Cijk_|^nvjet_/.test(name)) return null
  if (!/^\w+$/.test(name) || /convol/.test(name)) return null
  const tile = TILE.exec(name)
  if (!tile) return null
  const format = FORMATS.find(([pattern]) => pattern.test(name))?.[1]
  return [
    isConvolution ? 'conv' : 'gemm',
    ...(pass ? [pass] : []),
    `${tile[1]}x${tile[2]}`,
    ...(format ? [format] : []),
  ].join(' ')
}

/** The readable short name of a device kernel: `elementwise [add]`, `flash_fwd`, `gemm 128x64 bf16`. */
export function shortKernel(name: string): string {
  let text = name.trim()
  // Tables may also have Python frames and data loader ranges.
  if (/\.py\(\d+\): |^enumerate\(/.test(text)) return text
  if (!/^void |<|\w\(/.test(text)) return matrixProduct(text) ?? text
  text = text.replace(/^(?:void|int|float|unsigned int)\s+/, '').replace(/\(anonymous namespace\)/g, '')
  const bare = withoutGroups(text).trim()
  const pieces = bare.split('::').filter((piece) => piece !== '')
  const last = pieces[pieces.length - 1]?.trim() || text
  const wrapper = WRAPPERS.find(([pattern]) => pattern.test(last))
  if (!wrapper)
    return matrixProduct(last) ?? (last.replace(/^vectorized_(?=.*_kernel$)/, '').replace(/_kernel$/, '') || last)
  const inner = functor(text)
  if (!inner || inner === last) return wrapper[1] || (pieces[pieces.length - 2]?.replace(/^.* /, '') ?? last)
  return wrapper[1] ? `${wrapper[1]} [${inner[0].toLowerCase()}${inner.slice(1)}]` : (matrixProduct(inner) ?? inner)
}

function functor(text: string): string | null {
  for (const piece of text.split(/[<>,()]|::/)) {
    for (const pattern of FUNCTORS) {
      const found = pattern.exec(piece.trim())?.[1]
      if (found && !DULL.test(found)) return found
    }
  }
  return /cutlass\w*_\w+op_\w+|cutlass_\d\w+/.exec(text)?.[0] ?? null
}

/** A text of at most `length` characters: the middle goes, both ends stay. */
export function shortenMiddle(text: string, length: number): string {
  if (text.length <= length) return text
  if (length < 5) return `${text.slice(0, Math.max(1, length - 1))}…`
  const tail = Math.floor((length - 1) * 0.4)
  return `${text.slice(0, length - 1 - tail)}…${text.slice(text.length - tail)}`
}

/** Characters shown of a difference before the next one. */
const EXCERPT = 8

/** Names shortened in the middle to `width` characters. Different names stay different if width allows. */
export function elided(names: readonly string[], width: number): Map<string, string> {
  const short = new Map(names.map((name) => [name, shortenMiddle(name, width)]))
  for (const group of equalNames(short))
    distinguish(group, `${group[0].slice(0, Math.floor(width / 4))}…`, width, short)
  return short
}

/** Names shortened at the end, or in the middle if ends would be equal. */
function startedNames(names: readonly string[], width: number): Map<string, string> {
  const short = new Map(names.map((name) => [name, name.length <= width ? name : `${name.slice(0, width - 1)}…`]))
  return equalNames(short).length > 0 ? elided(names, width) : short
}

/** Groups of different names that are shown as the same. */
function equalNames(short: ReadonlyMap<string, string>): string[][] {
  const groups = new Map<string, string[]>()
  for (const [name, shown] of short) groups.set(shown, [...(groups.get(shown) ?? []), name])
  return [...groups.values()].filter((group) => group.length > 1)
}

function distinguish(group: readonly string[], before: string, width: number, into: Map<string, string>): void {
  const at = sharedStart(group)
  const room = width - before.length
  if (room < EXCERPT + 2) return
  const shown = group.map((name): [string, string] => {
    const rest = name.slice(at)
    return [name, before + (rest.length <= room ? rest : `${rest.slice(0, room - 1)}…`)]
  })
  for (const [name, text] of shown) into.set(name, text)
  for (const still of equalNames(new Map(shown)))
    distinguish(still, `${before}${still[0].slice(at, at + EXCERPT)}…`, width, into)
}

const END = 10

/** Each name as a shrinkable part and a fixed end that distinguishes it. */
export function withEnds(names: readonly string[]): [string, string][] {
  const ends = new Map(
    names.map((name) => [name, name.slice(name.length - Math.min(END, Math.floor(name.length / 2)))]),
  )
  const tails = new Map(ends)
  for (const group of equalNames(ends)) {
    const at = sharedStart(group)
    const rests = startedNames(
      group.map((name) => name.slice(at)),
      END + 4,
    )
    for (const name of group) if (at > 0) tails.set(name, rests.get(name.slice(at)) ?? '')
  }
  return names.map((name) => {
    const tail = name.length <= 2 * END ? '' : (tails.get(name) ?? '')
    return name.endsWith(tail) ? [name.slice(0, name.length - tail.length), tail] : [name, tail]
  })
}

export interface Label {
  short: string
  /** The dimmed text that distinguishes equal short names. */
  rest: string
}

/** A short name, and the text that distinguishes it from equal ones. */
export const labelText = ({ short, rest }: Label) => (rest.startsWith('…') ? `${short} ${rest}` : short)

/**
 * Labels of at most `room` characters. `shortOf` makes names readable; equal results are distinguished by the
 * following text, other names by `elided`.
 */
export function labelsOf(
  names: readonly string[],
  room: number,
  shortOf: (name: string) => string,
): Map<string, Label> {
  const groups = new Map<string, string[]>()
  for (const name of new Set(names)) groups.set(shortOf(name), [...(groups.get(shortOf(name)) ?? []), name])
  const labels = new Map<string, Label>()
  const spare = elided([...groups.keys()], room)
  for (const [short, group] of groups) {
    if (group.length === 1) {
      const shown = spare.get(short) ?? short
      labels.set(group[0], { short: shown, rest: short === group[0] || short.length + 6 >= room ? '' : group[0] })
      continue
    }
    const shown = shortenMiddle(short, Math.max(10, Math.floor(room * 0.6)))
    const at = sharedStart(group)
    const rests = startedNames(
      group.map((name) => name.slice(at)),
      Math.max(10, room - shown.length - 2),
    )
    for (const name of group) labels.set(name, { short: shown, rest: `…${rests.get(name.slice(at))}` })
  }
  return labels
}

/** Length of the common prefix, at word boundaries. */
function sharedStart(names: readonly string[]): number {
  const least = Math.min(...names.map((name) => name.length))
  let count = 0
  while (count < least && names.every((name) => name[count] === names[0][count])) count++
  let start = count
  while (start > 0 && count - start < EXCERPT - 2 && /[A-Za-z0-9]/.test(names[0][start - 1])) start--
  return start
}

/** Characters that fit under a chart on a narrow page. */
const ROOM = 100

/** Names of one group side by side; a common prefix or suffix becomes `…` if they do not fit. */
export function withoutShared(names: readonly string[]): string[] {
  const longest = Math.max(...names.map((name) => name.length))
  if (new Set(names).size < 2 || longest * names.length <= ROOM) return [...names]
  const least = Math.min(...names.map((name) => name.length))
  const shared = (at: (name: string, i: number) => string) => {
    let count = 0
    while (count < least && names.every((name) => at(name, count) === at(names[0], count))) count++
    while (count > 0 && /[A-Za-z0-9]/.test(at(names[0], count - 1))) count--
    return count
  }
  const head = shared((name, i) => name[i])
  const tail = Math.min(
    shared((name, i) => name[name.length - 1 - i]),
    least - head,
  )
  const parts = names.map((name) => name.slice(head, name.length - tail))
  if (parts.includes('')) return [...names]
  return parts.map((part) => `${head ? '…' : ''}${part}${tail ? '…' : ''}`)
}
