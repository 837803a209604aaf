// What went wrong: what, where, what to do; copied with one click.
import { Button } from '@mantine/core'
import type { ReactNode } from 'react'
import type { Problem } from '../api/payloads'
import { useCopied } from './basics'

export function ProblemPanel({ problem, action, title }: { problem: Problem; action?: ReactNode; title?: string }) {
  const [copied, copy] = useCopied()
  return (
    <div className="tt-problem" role="alert">
      {title && <div className="tt-problem-title">{title}</div>}
      <h2>{problem.what}</h2>
      <dl>
        {problem.where && (
          <>
            <dt>Where</dt>
            <dd className="tt-mono">{problem.where}</dd>
          </>
        )}
        {problem.do && (
          <>
            <dt>What to do</dt>
            <dd>{problem.do}</dd>
          </>
        )}
      </dl>
      <div className="tt-row">
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
