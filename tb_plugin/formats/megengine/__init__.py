"""MegEngine's chrome_timeline.json: a dialect of Chrome's trace JSON with lanes for threads, devices and CUPTI's streams."""

from tb_plugin.formats.megengine.reader import MegEngineReader

__all__ = ["MegEngineReader"]
