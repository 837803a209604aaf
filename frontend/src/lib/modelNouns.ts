// The noun of a profile, by model.

const NOUNS: Record<string, string> = { trace: 'trace', snapshot: 'snapshot' }

export const modelNoun = (model: string): string => (Object.hasOwn(NOUNS, model) ? NOUNS[model] : 'file')
