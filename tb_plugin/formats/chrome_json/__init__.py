"""Chrome's trace JSON of any tool: VizTracer, a program's own tracer, an export of Perfetto."""

from tb_plugin.formats.chrome_json.reader import ChromeJsonReader

__all__ = ["ChromeJsonReader"]
