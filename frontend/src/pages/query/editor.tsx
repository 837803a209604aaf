// The editor of a query: SQL that completes tables and columns.
import { autocompletion, closeBrackets, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { PostgreSQL, sql } from '@codemirror/lang-sql'
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { Prec } from '@codemirror/state'
import { EditorView, keymap, placeholder } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useRef } from 'react'
import type { Schema } from './schema'
import css from './query.module.css'

const HIGHLIGHT = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--tt-accent)', fontWeight: '600' },
  { tag: tags.string, color: 'var(--tt-medium)' },
  { tag: tags.comment, color: 'var(--tt-mute)' },
])

/** The text belongs to the editor; another `value` replaces it. */
export default function Editor(props: {
  value: string
  schema: Schema
  onChange: (text: string) => void
  onRun: () => void
}) {
  const { value, schema, onChange, onRun } = props
  const place = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView | null>(null)
  const latest = useRef({ value, onChange, onRun })
  latest.current = { value, onChange, onRun }
  useEffect(() => {
    if (!place.current) return
    const run = () => {
      latest.current.onRun()
      return true
    }
    const made = new EditorView({
      doc: latest.current.value,
      parent: place.current,
      extensions: [
        history(),
        closeBrackets(),
        autocompletion(),
        sql({
          dialect: PostgreSQL,
          schema: schema as Record<string, readonly { label: string }[]>,
          upperCaseKeywords: false,
        }),
        syntaxHighlighting(HIGHLIGHT),
        placeholder('select name, count(*) from operators group by name'),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': 'SQL query' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) latest.current.onChange(update.state.doc.toString())
        }),
        Prec.highest(keymap.of([{ key: 'Mod-Enter', run }])),
        keymap.of([...completionKeymap, ...historyKeymap, ...defaultKeymap]),
      ],
    })
    view.current = made
    return () => {
      made.destroy()
      view.current = null
    }
  }, [schema])
  useEffect(() => {
    const made = view.current
    if (!made || made.state.doc.toString() === value) return
    made.dispatch({ changes: { from: 0, to: made.state.doc.length, insert: value } })
  }, [value])
  return <div ref={place} className={css.editor} data-testid="editor" />
}
