// The choice among a page's forms (`form` in the URL).
import { SegmentedControl } from '@mantine/core'
import { setRoute, useRoute } from '../../state/urlState'

/** Returns the form that is chosen among those that there are. */
export function useForm(forms: readonly { value: string }[]): string {
  const { form = '' } = useRoute()
  return forms.find(({ value }) => value === form)?.value ?? forms[0]?.value ?? ''
}

export function FormChoice({ forms }: { forms: readonly { value: string; label: string }[] }) {
  const form = useForm(forms)
  if (forms.length < 2) return null
  return (
    <SegmentedControl
      size="sm"
      aria-label="View"
      value={form}
      onChange={(next) => setRoute({ ...LEFT, form: next === forms[0].value ? '' : next }, true)}
      data={[...forms]}
    />
  )
}

/** State that belongs to one form only. */
const LEFT = { row: '', sort: '', desc: '', cols: '', where: '' }
