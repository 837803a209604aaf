"""What a person aims at has a sensible box on every page: nothing huge, nothing cut, nothing under something else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import Open

GPU = {"run": "synthetic_gpu"}
CPU = {"run": "transformer_cpu"}
PAGES: tuple[dict[str, str], ...] = (
    {**GPU, "view": "overview"},
    {**GPU, "view": "timeline"},
    {**GPU, "view": "timeline", "from_ns": "20000000", "to_ns": "30000000", "event": "100"},
    {**GPU, "view": "operators"},
    {**GPU, "view": "kernels"},
    {**GPU, "view": "modules"},
    {**GPU, "view": "stacks"},
    {**GPU, "view": "memory"},
    {**GPU, "view": "memory", "group": "memory_events"},
    {**GPU, "view": "distributed"},
    {**GPU, "view": "diff"},
    {**CPU, "view": "overview"},
    {**CPU, "view": "timeline"},
    {**CPU, "view": "operators"},
    {**CPU, "view": "modules"},
    {**CPU, "view": "stacks"},
    {**CPU, "view": "memory"},
    {**CPU, "view": "diff"},
)
SIZES = ((1440, 900), (1000, 700))
TALLEST = 80
"""Pixels; a control that is meant to be larger carries ``data-tile``."""
_FAULTS = """
(tallest) => {
  const faults = []
  const wide = document.documentElement.clientWidth
  const high = document.documentElement.clientHeight
  const over = Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - wide
  if (over > 0) faults.push(`the body is ${over} px wider than the page`)
  const controls = [...document.querySelectorAll(
    'button, input, select, textarea, a[href], [role=button], [role=tab], [role=switch], [role=checkbox], [role=radio]'
  )]
  const cuts = (style) => style.overflowX !== 'visible' || style.overflowY !== 'visible'
  for (const control of controls) {
    const box = control.getBoundingClientRect()
    const style = getComputedStyle(control)
    // Of a segmented control the labels are seen, its inputs are not; the skip link comes with the focus.
    if (box.width < 2 || box.height < 2 || style.opacity === '0' || box.bottom < 0 || !control.checkVisibility()) continue
    const name = control.getAttribute('aria-label') || control.textContent.trim() || control.outerHTML
    const said = `${name.slice(0, 50)} (${Math.round(box.width)} x ${Math.round(box.height)} px)`
    if (box.height > tallest && !control.closest('[data-tile]')) faults.push(`${said} is taller than ${tallest} px`)
    // What of it is in sight, and whether it lies in something that scrolls sideways.
    let [left, right, top, bottom, scrolls] = [box.left, box.right, box.top, box.bottom, false]
    let around = null
    for (let node = control.parentElement; node && node !== document.documentElement; node = node.parentElement) {
      const of = getComputedStyle(node)
      const frame = node.getBoundingClientRect()
      if (!around && of.display !== 'inline' && of.display !== 'contents') around = frame
      if (!cuts(of) || node === document.body) continue
      scrolls ||= of.overflowX !== 'visible' && of.overflowX !== 'hidden' && node.scrollWidth > node.clientWidth
      left = Math.max(left, frame.left)
      right = Math.min(right, frame.right)
      top = Math.max(top, frame.top)
      bottom = Math.min(bottom, frame.bottom)
    }
    if (box.width > around.width + 1) faults.push(`${said} is wider than what it stands in (${Math.round(around.width)} px)`)
    if (!scrolls && (box.left < -1 || box.right > wide + 1)) faults.push(`${said} sticks out of the page at x = ${Math.round(box.left)}`)
    const cut = box.width - Math.max(0, Math.min(right, wide) - Math.max(left, 0))
    if (!scrolls && cut > 1 && bottom > top) faults.push(`${said}: ${Math.round(cut)} px of its width are cut off`)
    const [x, y] = [(left + right) / 2, (top + bottom) / 2]
    const seen = right - left >= 0.9 * box.width && bottom - top >= 0.9 * box.height && top >= 0 && bottom <= high
    if (!seen || x < 0 || x > wide) continue
    const hit = document.elementFromPoint(x, y)
    const same = hit && (control.contains(hit) || hit.contains(control) || (control.labels && [...control.labels].some((label) => label.contains(hit))))
    if (!same && !(hit && hit.closest('[role=columnheader]'))) faults.push(`${said} lies under ${hit ? hit.outerHTML.slice(0, 90) : 'nothing'}`)
  }
  return faults
}
"""


def _faults(tab: Any) -> list[str]:
    faults: list[str] = tab.frame().evaluate(_FAULTS, TALLEST)
    return faults


@pytest.mark.parametrize("page", PAGES, ids=lambda page: "_".join(page.values()))
def test_boxes_of_controls(open_tab: Open, page: dict[str, str]) -> None:
    tab = open_tab()
    tab.open_alone(**page)
    faults = []
    for width, height in SIZES:
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.settle()
        faults += [f"{width} x {height}: {fault}" for fault in _faults(tab)]
    assert not faults, "\n".join(faults)
