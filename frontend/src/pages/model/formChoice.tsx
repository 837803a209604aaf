// The choice among a page's forms (`form` in the URL).

import { setRoute, useRoute } from '../../state/urlState'
import { Switch } from '../../widgets/choice'

export function useForm(forms: readonly { value: string }[]): string {
  const { form = '' } = useRoute()
  return forms.find(({ value }) => value === form)?.value ?? forms[0]?.value ?? ''
}

export function FormChoice({ forms }: { forms: readonly { value: string; label: string }[] }) {
  const form = useForm(forms)
  if (forms.length < 2) return null
  return (
    <Switch
      size="sm"
      label="View"
      value={form}
      onChange={(next) => setRoute({ ...LEFT, form: next === forms[0].value ? '' : next }, true)}
      options={forms}
    />
  )
}

/** State that belongs to one form only. */
const LEFT = { row: '', sort: '', desc: '', cols: '', where: '' }
