// Error boundary around a view.
import { Component, type ReactNode } from 'react'
import { ProblemPanel } from '../widgets/problem'

export class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null }

  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render() {
    const { error } = this.state
    if (!error) return this.props.children
    return (
      <ProblemPanel
        problem={{
          what: 'An internal error occurred in this view.',
          where: `${error.message}\n${error.stack?.split('\n').slice(0, 4).join('\n') ?? ''}`,
          do: 'Choose another view or reload the page. If the error returns, report it with this text.',
        }}
      />
    )
  }
}
