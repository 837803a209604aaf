// An error: message, place, fix.
import { Button } from '@mantine/core'
import { createContext, type ReactNode, useContext } from 'react'
import type { Problem } from '../api/payloads'
import { useCopied } from './basics'
import basicsCss from './basics.module.css'
import css from './problem.module.css'
import textCss from './text.module.css'

/** A problem that stands above the page already. */
export const ReportedProblem = createContext<Problem | null>(null)

export function ProblemPanel({ problem, action, title }: { problem: Problem; action?: ReactNode; title?: string }) {
  const [copied, copy] = useCopied()
  const reported = useContext(ReportedProblem)
  if (reported?.what === problem.what && reported.where === problem.where) return null
  return (
    <div data-testid="problem" className={`${basicsCss.panel} ${css.problem}`} role="alert">
      {title && <div className={css.title}>{title}</div>}
      <h2>{problem.what}</h2>
      <dl>
        {problem.where && (
          <>
            <dt>Where</dt>
            <dd className={textCss.mono}>{problem.where}</dd>
          </>
        )}
        {problem.do && (
          <>
            <dt>Fix</dt>
            <dd>{problem.do}</dd>
          </>
        )}
      </dl>
      <div className={textCss.row}>
        {action}
        <Button
          size="xs"
          variant="default"
          onClick={() => copy(`${problem.what}\nWhere: ${problem.where}\nDo: ${problem.do}`)}
        >
          {copied ? 'Copied' : 'Copy message'}
        </Button>
      </div>
    </div>
  )
}
