// What is wrong with the boxes of the page's controls, as sentences: taller than `tallest` (but for what carries data-tile),
// wider than what they stand in, sticking out of the page, cut off, or under something else.
(tallest) => {
  const CONTROLS = 'button, input, select, textarea, a[href], [role=button], [role=tab], [role=switch], [role=checkbox], [role=radio]'
  const page = document.documentElement
  const [wide, high] = [page.clientWidth, page.clientHeight]
  const faults = []

  // Of a segmented control the labels are seen, its inputs are not; the skip link comes with the focus.
  const isSeen = (control, box) =>
    box.width > 1 && box.height > 1 && box.bottom > 0 && control.checkVisibility({ checkOpacity: true })

  // The part of a control that everything around it lets through, the box it stands in, and whether one scrolls to the rest.
  const surroundings = (control, box) => {
    const shown = { left: box.left, right: box.right, top: box.top, bottom: box.bottom }
    let [around, scrolls] = [null, false]
    for (let node = control.parentElement; node && node !== document.body; node = node.parentElement) {
      const { display, overflowX, overflowY } = getComputedStyle(node)
      const frame = node.getBoundingClientRect()
      if (!around && display !== 'inline' && display !== 'contents') around = frame
      if (overflowX === 'visible' && overflowY === 'visible') continue
      scrolls ||= overflowX !== 'hidden' && node.scrollWidth > node.clientWidth
      shown.left = Math.max(shown.left, frame.left)
      shown.right = Math.min(shown.right, frame.right)
      shown.top = Math.max(shown.top, frame.top)
      shown.bottom = Math.min(shown.bottom, frame.bottom)
    }
    return { shown, around, scrolls }
  }

  const sticky = (node) => node && (getComputedStyle(node).position === 'sticky' ? node : sticky(node.parentElement))

  // Whether a click into the middle of what is shown reaches the control. Rows may lie under what stays above their table.
  const isReached = (control, { left, right, top, bottom }) => {
    const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2)
    if (!hit) return false
    const labels = [...(control.labels ?? [])]
    return [control, ...labels].some((node) => node.contains(hit)) || hit.contains(control) || hit.closest('[role=columnheader], th') || sticky(hit)?.parentElement.contains(control)
  }

  const over = Math.max(page.scrollWidth, document.body.scrollWidth) - wide
  if (over > 0) faults.push(`the body is ${over} px wider than the page`)
  for (const control of document.querySelectorAll(CONTROLS)) {
    const box = control.getBoundingClientRect()
    if (!isSeen(control, box)) continue
    const name = control.getAttribute('aria-label') || control.textContent.trim() || control.outerHTML
    const say = (what) => faults.push(`${name.slice(0, 50)} (${Math.round(box.width)} x ${Math.round(box.height)} px) ${what}`)
    const { shown, around, scrolls } = surroundings(control, box)
    if (box.height > tallest && !control.closest('[data-tile]')) say(`is taller than ${tallest} px`)
    if (around && box.width > around.width + 1) say(`is wider than what it stands in, ${Math.round(around.width)} px`)
    if (!scrolls) {
      if (box.left < -1 || box.right > wide + 1) say(`sticks out of the page, from x = ${Math.round(box.left)}`)
      const cut = box.width - Math.max(0, Math.min(shown.right, wide) - Math.max(shown.left, 0))
      if (cut > 1 && shown.bottom > shown.top) say(`is cut by ${Math.round(cut)} px`)
    }
    const whole = shown.right - shown.left >= 0.9 * box.width && shown.bottom - shown.top >= 0.9 * box.height
    const inPage = shown.left >= 0 && shown.right <= wide && shown.top >= 0 && shown.bottom <= high
    if (whole && inPage && !isReached(control, shown)) say('lies under something else')
  }
  return faults
}
