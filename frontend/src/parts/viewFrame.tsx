// Loading, error and result of a view.
import { Button } from '@mantine/core'
import type { ReactNode } from 'react'
import type { View } from '../api/payloads'
import type { Resource } from '../state/data'
import { setRoute } from '../state/urlState'
import { Placeholder } from '../widgets/basics'
import { ProblemPanel } from '../widgets/problem'
import css from './viewFrame.module.css'

export function ViewFrame(props: {
  resource: Resource<View>
  /** Shown while loading; a number: pixels. */
  bones: ReactNode
  children: (view: View) => ReactNode
  steps?: string
  /** The way out of a problem; absent: from the chosen steps to the whole trace. */
  action?: ReactNode
}) {
  const { resource, bones, children, steps, action } = props
  if (resource.problem && !resource.data) {
    return (
      <ProblemPanel
        problem={resource.problem}
        action={
          action ??
          (steps ? (
            <Button size="xs" onClick={() => setRoute({ steps: '' }, true)}>
              Show all steps
            </Button>
          ) : undefined)
        }
      />
    )
  }
  if (!resource.data)
    return <div aria-busy="true">{typeof bones === 'number' ? <Placeholder height={bones} /> : bones}</div>
  return (
    <div className={resource.busy ? `${css.view} ${css.stale}` : css.view} aria-busy={resource.busy}>
      {resource.problem && <ProblemPanel problem={resource.problem} />}
      {children(resource.data)}
    </div>
  )
}
