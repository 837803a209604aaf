"""Settings: environment variables, each declared once."""

from __future__ import annotations

from typing import NamedTuple

# In the order of docs/reference/settings.md.
SETTINGS: list[Setting] = []


class Setting(NamedTuple):
    """An environment variable. ``meaning`` and ``default`` are Markdown for docs/reference/settings.md."""

    name: str
    meaning: str
    default: str


def _declared(name: str, meaning: str, default: str = "") -> Setting:
    SETTINGS.append(Setting(name, meaning, default))
    return SETTINGS[-1]


CACHE = _declared(
    "TORCH_TRACE_CACHE",
    "folder of parsed traces; empty or `off`: a private temporary folder, removed at exit",
    default="`torch-trace` in the user's cache folder",
)
CACHE_MB = _declared(
    "TORCH_TRACE_CACHE_MB",
    "maximum cache size in megabytes; the least recently used files are removed first",
    default="8000",
)
CLASSES = _declared(
    "TORCH_TRACE_CLASSES",
    (
        "file that defines your own kernel classes, one `class = regex` per line "
        "([how](../concepts/attribution.md#kernels))"
    ),
    default="none",
)
STEPS = _declared(
    "TORCH_TRACE_STEPS",
    (
        "regular expression with named groups, for server annotations that mark steps "
        "([how](../concepts/attribution.md#serving))"
    ),
    default="none",
)
PEAKS = _declared(
    "TORCH_TRACE_PEAKS",
    (
        "peak rates of devices in TFLOP/s and GB/s, such as `H20: fp32=44 tf32=74 fp16=148 fp8=296 bandwidth=4000`; "
        "`;` separates devices, and a name is a regular expression"
    ),
    default="none",
)
WORKERS = _declared(
    "TORCH_TRACE_WORKERS", "maximum number of worker processes", default="depends on cores and memory, at most 4"
)
DECODERS = _declared(
    "TORCH_TRACE_DECODERS",
    (
        "maximum number of processes that decode one large JSON trace, on Linux; `1`: the worker decodes it. "
        "Results do not depend on it"
    ),
    default="depends on cores, memory and file size, at most 8",
)
ANSWER_SECONDS = _declared(
    "TORCH_TRACE_ANSWER_SECONDS",
    (
        "time limit in seconds for computing one view or table; `0`: no limit. It does not apply to "
        "reading files or to the command line"
    ),
    default="120",
)
MEMORY_MB = _declared(
    "TORCH_TRACE_MEMORY_MB",
    (
        "memory in megabytes for all workers together. Traces that do not fit together are read one "
        "after the other. A trace that does not fit at all is opened as a window"
    ),
    default="half of the machine's (or container's) memory",
)
FOLLOW_LINKS = _declared(
    "TORCH_TRACE_FOLLOW_LINKS",
    "`1`: follow symbolic links that lead out of the log directory. Otherwise such links are listed as skipped",
    default="off",
)
HOSTS = _declared(
    "TORCH_TRACE_HOSTS",
    (
        "host names that requests may use, comma-separated, without ports. `.lab.example` allows all "
        "names that end in it. Set this variable if your browser also opens internet pages "
        "([security](../security.md))"
    ),
    default="all names",
)
EXTENSIONS = _declared(
    "TORCH_TRACE_EXTENSIONS",
    "comma-separated import names of modules that add readers, models, views or profilers ([how](../add-a-model.md))",
    default="none",
)
GROUP = _declared(
    "TORCH_TRACE_GROUP",
    (
        "`folders`: each folder is a run, and each file name is a worker. By default, all ranks of a job "
        "form one run, even if their files are in different folders ([how](../http.md#runs))"
    ),
    default="by job",
)
SUMMARIES = _declared(
    "TORCH_TRACE_SUMMARIES",
    "folder or URL with [rank summaries](../summaries.md) from `torch-trace summarize --to`",
    default="next to the traces",
)
SCHEDULER = _declared(
    "TORCH_TRACE_SCHEDULER",
    (
        "scheduler of a Dask cluster for `torch-trace summarize`. The address comes only from this variable or from "
        "`--scheduler`"
    ),
    default="none",
)
TLS_CA_FILE = _declared(
    "TORCH_TRACE_TLS_CA_FILE", "file with the CA certificate, for a `tls://` scheduler", default="none"
)
TLS_CERT = _declared(
    "TORCH_TRACE_TLS_CERT", "file with the client certificate, for a `tls://` scheduler", default="none"
)
TLS_KEY = _declared("TORCH_TRACE_TLS_KEY", "file with the client key, for a `tls://` scheduler", default="none")
PERFETTO = _declared(
    "TORCH_TRACE_PERFETTO",
    (
        "address of the Perfetto UI for *Open in Perfetto* (http or https), such as your own copy at "
        "`http://localhost:10000`. The public UI is then never used"
    ),
    default="`https://ui.perfetto.dev`",
)
UPLOAD_MB = _declared(
    "TORCH_TRACE_UPLOAD_MB",
    "maximum size in megabytes of a file that is dropped on the page of `torch-trace view`; `0`: no files",
    default="2000",
)
PATHS = _declared(
    "TORCH_TRACE_PATHS",
    (
        "local folders for editor links to recorded paths, such as `/cluster/src=/home/me/src`. Several pairs are "
        "separated by `:` (Windows: `;`). The longest matching folder is used"
    ),
    default="recorded paths",
)
NO_FRONTEND = _declared(
    "TORCH_TRACE_NO_FRONTEND",
    "`1` during installation: do not build the page. The command line does not need the page",
    default="",
)
