"""Where things are in the timeline's picture, worked out from the server's answers and the address."""

from __future__ import annotations

from typing import Any, NamedTuple

from playwright.sync_api import Frame, Locator

from tests.browser.expect import ask
from tests.browser.harness import Tab

# The width of the names on a page of 1440 pixels; on a narrower one Picture.gutter says it.
GUTTER, HEAD = 236, 80
MARK = (0xE1, 0x1D, 0x74)
_ROW, _BAR, _PAD, _SMALL, _CHART, _TITLED = 17, 15, 6, 24, 40, 42
_PIXEL = """
(canvas, [x, y]) => [...canvas.getContext('2d').getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data]
"""
_DIGEST = "(canvas) => canvas.toDataURL()"
Pixel = tuple[int, ...]


class Point(NamedTuple):
    """CSS pixels from the corner of the canvas."""

    x: float
    y: float


class Picture:
    """The canvas of a tab. ``charts``: how many stand above the first lane; nothing is pinned, moved or scrolled."""

    def __init__(self, tab: Tab, *, charts: int = 0, **place: str) -> None:
        self.tab, self.place, self.charts = tab, place, charts
        self.head = ask(tab.address, "view/timeline", **place)["payloads"]["timeline"]

    @property
    def frame(self) -> Frame:
        return self.tab.frame()

    @property
    def canvas(self) -> Locator:
        return self.frame.locator("[data-testid=timeline] canvas")

    @property
    def width(self) -> int:
        width: int = self.canvas.evaluate("(canvas) => canvas.clientWidth")
        return width

    @property
    def gutter(self) -> int:
        width: int = self.canvas.evaluate(
            "(canvas) => parseInt(canvas.parentElement.style.getPropertyValue('--gutter'))"
        )
        return width

    def window(self) -> tuple[int, int]:
        state = self.tab.state()
        return int(state["start_ns"]), int(state["end_ns"])

    def x(self, time_ns: float) -> float:
        start, end = self.window()
        gutter = self.gutter
        return gutter + (time_ns - start) / (end - start) * (self.width - gutter)

    def top(self, lane: int) -> float:
        shut = set(self.tab.state().get("shut", "").replace("%2F", "/").split(","))
        heights = (
            _SMALL if track["id"] in shut else max(_TITLED, track["rows"] * _ROW + 2 * _PAD)
            for track in self.head["tracks"][:lane]
        )
        return HEAD + self.charts * _CHART + sum(heights)

    def spot(self, event: str | int) -> Point:
        """The middle of an event."""
        flows = ask(self.tab.address, "view/flows", **self.place, event=str(event))["payloads"]["flows"]
        at = flows["event"].index(int(event))
        y = self.top(flows["lane"][at]) + _PAD + flows["row"][at] * _ROW + _BAR / 2
        return Point(self.x(flows["start_ns"][at] + flows["dur_ns"][at] / 2), y)

    def on_page(self, point: Point) -> Point:
        box = self.canvas.bounding_box()
        assert box is not None
        return Point(box["x"] + point.x, box["y"] + point.y)

    def pixel(self, point: Point) -> Pixel:
        found: list[int] = self.canvas.evaluate(_PIXEL, list(point))
        return tuple(found[:3])

    def digest(self) -> str:
        """The same for the same picture."""
        found: str = self.canvas.evaluate(_DIGEST)
        return found

    def moved_from(self, window: tuple[int, int]) -> Frame:
        """Waits until the address has another window: it follows when the picture rests."""
        self.tab.page.wait_for_function(
            "(before) => !before.every((part) => location.hash.split('&').includes(part))",
            arg=[f"p.torch_trace.start_ns={window[0]}", f"p.torch_trace.end_ns={window[1]}"],
        )
        return self.tab.settle()


def whole(picture: Picture) -> dict[str, str]:
    """The state of the address that shows the whole trace."""
    return {"start_ns": str(picture.head["start_ns"]), "end_ns": str(picture.head["end_ns"])}


def figure(block: dict[str, Any], key: str) -> Any:
    """A value of a payload of figures."""
    return next(one["value"] for one in block["figures"] if one["metric"]["key"] == key)
