// Selected steps as text: `5,7-9`; absent means all steps.

/** Labels that the text means, in the order of the trace. */
export function parseSteps(text: string, labels: readonly string[]): Set<string> {
  const chosen = new Set<string>()
  for (const part of text.split(',')) {
    const item = part.trim()
    const range = /^(\d+)-(\d+)$/.exec(item)
    if (labels.includes(item)) chosen.add(item)
    else if (range)
      for (const label of labels)
        if (Number(label) >= Number(range[1]) && Number(label) <= Number(range[2])) chosen.add(label)
  }
  return chosen
}

/**
 * The labels at whose starts two profiles are aligned: the first selected step of each side, else the first step of both,
 * else the first step of each.
 */
export function alignedSteps(
  labels: readonly string[],
  others: readonly string[],
  chosen: string,
  otherChosen: string,
): [string | undefined, string | undefined] {
  const [one] = parseSteps(chosen, labels)
  const [other] = parseSteps(otherChosen, others)
  const mine =
    one ?? (other !== undefined && labels.includes(other) ? other : labels.find((each) => others.includes(each)))
  const first = mine ?? labels[0]
  return [first, other ?? (others.includes(first) ? first : others[0])]
}

/** The shortest text for chosen labels; all of them and none of them mean different things, so all is spelled out. */
export function writeSteps(chosen: ReadonlySet<string>, labels: readonly string[]): string {
  const out: string[] = []
  let run: string[] = []
  const flush = () => {
    const numeric = run.every((label) => /^\d+$/.test(label))
    if (run.length > 2 && numeric) out.push(`${run[0]}-${run[run.length - 1]}`)
    else out.push(...run)
    run = []
  }
  for (const label of labels) {
    if (chosen.has(label)) run.push(label)
    else flush()
  }
  flush()
  return out.join(',')
}
