// The pages of the navigation: views of one page are its tabs.
import type { ViewInfo } from '../api/payloads'

export interface NavPage {
  id: string
  title: string
  tabs: readonly ViewInfo[]
  /** Whether a tab has data. */
  available: boolean
}

/** The pages of a profile, in the order of the server; those without data come last. */
export function pagesOf(views: readonly ViewInfo[]): NavPage[] {
  const tabs = new Map<string, ViewInfo[]>()
  for (const view of views) tabs.set(view.page, [...(tabs.get(view.page) ?? []), view])
  const pages = [...tabs].map(([id, members]) => ({
    id,
    title: members[0].page_title,
    tabs: members,
    available: members.some(({ available }) => available),
  }))
  return [...pages.filter(({ available }) => available), ...pages.filter(({ available }) => !available)]
}

/** The tab that a page opens with: the one that was open last if it has data, else the first with data. */
export const firstTab = (page: NavPage, last: ReadonlyMap<string, string>): ViewInfo | undefined =>
  page.tabs.find(({ id, available }) => available && id === last.get(page.id)) ??
  page.tabs.find(({ available }) => available)
