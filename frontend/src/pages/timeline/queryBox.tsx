// The search box of the timeline, with examples of queries.
import { type ComponentProps, useState } from 'react'
import { SearchBox } from '../../parts/tableSection'
import { setRoute } from '../../state/urlState'
import textCss from '../../widgets/text.module.css'
import css from './queryBox.module.css'

const EXAMPLES: readonly [string, string][] = [
  ['dur>100us', 'longer than 100 µs; also <, >=, <=; ns, us, ms, s'],
  ['kind:kernel', 'operator, runtime, kernel, communication, memcpy, python, …'],
  ['stream:7', 'work of a stream'],
  ['thread:main', 'events of threads with this name'],
  ['op:aten::mm', 'the operator and all events inside it, also its kernels'],
  ['name:gemm', 'name contains the text; = for the full name'],
  ['arg.grid=[1,1,1]', 'a recorded argument'],
  ['/^aten::.*_$/', 'a pattern (RE2)'],
  ['"two words"', 'text as it is'],
  ['gemm dur>50us', 'all terms must match'],
  ['/gemm|conv/', 'one or the other'],
  ['-relu kind:kernel', 'without relu'],
]

export function QueryBox(props: Omit<ComponentProps<typeof SearchBox>, 'placeholder' | 'onChange'>) {
  const { value } = props
  const [isOpen, setOpen] = useState(false)
  const search = (next: string) => setRoute({ search: next })
  return (
    <search
      className={value === '' ? css.box : `${css.box} ${css.filled}`}
      onFocus={() => setOpen(true)}
      onBlur={(event) => setOpen(event.currentTarget.contains(event.relatedTarget))}
      onKeyDown={(event) => event.key === 'Escape' && setOpen(false)}
    >
      <SearchBox {...props} onChange={search} placeholder="Search names, /regex/ or dur>100us" />
      {isOpen && value === '' && (
        <ul className={css.help} aria-label="Examples of queries">
          {EXAMPLES.map(([query, meaning]) => (
            <li key={query}>
              <button type="button" onClick={() => search(query)}>
                <code>{query}</code>
                <span className={textCss.mute}>{meaning}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </search>
  )
}
