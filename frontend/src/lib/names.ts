// Names of kernels and operators made readable. The full name is always one hover away.

/** Cuts balanced `open...close` groups out of a text. */
function withoutGroups(text: string, open: string, close: string): string {
  let depth = 0
  let out = ''
  for (let i = 0; i < text.length; i++) {
    const char = text[i]
    // `operator<`, `operator->` and arrows are no brackets.
    if (char === open && !/operator<?$/.test(text.slice(0, i))) depth++
    else if (char === close && depth > 0) depth--
    else if (depth === 0) out += char
  }
  return out
}

/** Names that say little on their own: what they are instantiated with says more. */
const WRAPPERS = /(elementwise_kernel|reduce_kernel|^kernel$|device_kernel|Kernel2$|distribution_elementwise)/
const FUNCTOR = /([A-Za-z_]\w*?)(?:Functor|_kernel_cuda|_kernel_impl|_cuda_kernel|Ops|Op)\b/
const DULL = new Set(['func_wrapper_t', 'AUnaryFunctor', 'BUnaryFunctor', 'BinaryFunctor', 'gpu_kernel_impl', 'Reduce'])

/** The readable short name of a device kernel: no return type, namespaces, template arguments or parameters. */
export function shortKernel(name: string): string {
  let text = name.trim()
  if (!/^void |<|\w\(/.test(text)) return text
  text = text.replace(/^(?:void|int|float|unsigned int)\s+/, '').replace(/\(anonymous namespace\)/g, '')
  const bare = withoutGroups(withoutGroups(text, '<', '>'), '(', ')').trim()
  const pieces = bare.split('::').filter((piece) => piece !== '')
  const last = pieces[pieces.length - 1]?.trim() ?? text
  if (!WRAPPERS.test(last)) return last || text
  const inner = functor(text)
  return inner && inner !== last ? `${last} [${inner}]` : last
}

function functor(text: string): string | null {
  for (const piece of text.split(/[<>,()]|::/)) {
    const word = piece.trim()
    const match = FUNCTOR.exec(word)
    if (match && !DULL.has(word) && match[1].length > 1) return word.replace(/Functor$|_kernel_cuda$|_kernel_impl$/, '')
  }
  return /cutlass_\w+/.exec(text)?.[0] ?? null
}

/** A text of at most `length` characters: the middle goes, both ends stay. */
export function shortenMiddle(text: string, length: number): string {
  if (text.length <= length) return text
  if (length < 5) return `${text.slice(0, Math.max(1, length - 1))}…`
  const tail = Math.floor((length - 1) * 0.4)
  return `${text.slice(0, length - 1 - tail)}…${text.slice(text.length - tail)}`
}
