"""Pages on paper."""

from __future__ import annotations

import re

from tests.browser.conftest import Open

_OVERFLOW = """
() => [...document.querySelectorAll('main *')]
  .filter((node) => node.checkVisibility() && getComputedStyle(node).clipPath === 'none'
    && node.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((node) => node.outerHTML.slice(0, 90))
"""
_PAGES = {"overview": 2, "kernels": 2, "idle": 2}


def test_a_page_is_printed_on_several_sheets_in_light_colours(visit: Open) -> None:
    tab = visit()
    for view, sheets in _PAGES.items():
        frame = tab.open_alone(run="synthetic_gpu", view=view)
        tab.page.emulate_media(color_scheme="dark", media="print")
        tab.settle()
        tab.resize(1000, 700)  # a sheet of paper
        frame.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert frame.evaluate("document.documentElement.dataset.mantineColorScheme") == "light"
        assert frame.evaluate("getComputedStyle(document.querySelector('nav').parentElement).display") == "none"
        assert frame.evaluate(_OVERFLOW) == [], view
        frame.evaluate("window.dispatchEvent(new Event('afterprint'))")
        paper = tab.page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type /Page\b", paper)) >= sheets, view
        tab.page.emulate_media(color_scheme="light", media="screen")
    tab.resize(1440, 900)
