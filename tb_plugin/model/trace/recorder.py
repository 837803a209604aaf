"""Recording tools: advice for findings, and names in framework code."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Advice(msgspec.Struct, frozen=True):
    """The fix for a finding. ``references`` contains the titles and URLs of external documents."""

    todo: str
    references: tuple[tuple[str, str], ...] = ()
    snippet: str = ""
    """Code of the fix, ready to copy."""


# Entry for findings that this tool cannot fix. A test reports findings without an entry.
NO_ADVICE = Advice("")


class ThreadRole(msgspec.Struct, frozen=True):
    """Role of a framework thread. Patterns are RE2 expressions that match anywhere; "" matches nothing."""

    title: str
    threads: str = ""
    events: str = ""
    """Pattern for event names. A thread has the role if at least one of its events matches."""
    all_must_match: bool = False
    """If True, the thread has the role only if all its events match."""


class StageFrames(msgspec.Struct, frozen=True):
    """Frames of training stages. Patterns are RE2 expressions that match anywhere; "" matches nothing."""

    clear: str = ""
    step: str = ""
    backward: str = ""
    forward: str = ""
    setup: str = ""
    """Frame of setup code. A module call inside setup code is not a forward pass."""
    data: str = ""
    """Frame that loads a batch or copies it to the device."""
    recomputing: str = ""
    """Frame of forward code that the backward pass runs again."""


class HostNames(msgspec.Struct, frozen=True):
    """CPU events for which a device waits. Patterns are RE2 expressions that match anywhere; "" matches nothing."""

    compiling: str = ""
    collecting: str = ""
    profiling: str = ""
    loading: str = ""
    """Pattern for loading a batch in the training thread."""
    awaiting: str = ""
    """Pattern for waiting until worker processes deliver a batch."""
    deterministic: str = ""
    """Backward operators that may wait for the device in deterministic mode."""
    handing_over: str = ""
    """Runtime calls that wait for another thread of the framework."""


class OperatorNames(msgspec.Struct, frozen=True):
    """Names of operators, grouped by purpose. Patterns are regular expressions that match anywhere; "" matches nothing."""

    product: str = ""
    """Pattern for matrix multiplications of input 0 by input 1."""
    added_product: str = ""
    """Pattern for matrix multiplications of input 1 by input 2, where input 0 is added to the product."""
    batched_product: str = ""
    single: str = ""
    half: str = ""
    list_element: str = ""
    """Pattern for the element type of lists of tensors in kernel names: a group with the type or its bytes."""
    softmax: str = ""
    """Pattern for forward and backward softmax operators, but not log-softmax."""
    updating: str = ""
    """Pattern for the name of the range around one optimizer step."""
    going_back: str = ""
    """Pattern for the name of the range around one backward pass."""
    ending: str = ""
    """Pattern for optimizer work outside of the optimizer step, such as clearing gradients."""
    casting: str = ""
    learning: str = ""
    """Names that occur only in the backward pass or the optimizer, and therefore only in training."""
    laying_out: str = ""
    """Operators that convert the memory layout. They copy data only if the layout changes."""
    reducing: str = ""
    """Operators that sum a gradient over all processes during the backward pass."""
    reshaping: str = ""
    """Operators that reshape a tensor but do not change its data."""
    recomputing: str = ""
    """Backward operators that run forward code again."""


class ParallelNames(msgspec.Struct, frozen=True):
    """Names of ranges, operators and kernels in distributed training. Patterns match anywhere; "" matches nothing."""

    sharding: str = ""
    """Ranges that gather, reduce, copy or move shards of parameters or gradients."""
    ahead: str = ""
    """Ranges that prefetch parameters."""
    copying_in: str = ""
    """Ranges that copy shards into send buffers."""
    copying_out: str = ""
    """Ranges that copy gathered data to its destination."""
    sending: str = ""
    receiving: str = ""
    exchanging: str = ""
    """Ranges that send and receive data at the same time."""
    micro_batch: str = ""
    """Ranges that process one micro-batch in one pipeline stage."""
    offloading: str = ""
    """Ranges that copy data between host and device to offload memory."""
    routing: str = ""
    experts: str = ""
    """Operators and kernels that multiply the matrices of experts."""
    dispatching: str = ""
    """Ranges and kernels that send tokens to their experts."""
    combining: str = ""
    """Ranges and kernels that return the experts' results."""
    dimensions: tuple[tuple[str, str], ...] = ()
    """Parallel dimensions (tensor, pipeline, data, ...), each with a pattern for group descriptions."""
    split_sizes: tuple[str, str] = ("", "")
    """Keys of two extra columns: the size sent to each rank, and the size received from each rank."""


class CompiledNames(msgspec.Struct, frozen=True):
    """Names in compiled code. Patterns are regular expressions that match anywhere; "" matches nothing."""

    lookup: str = ""
    """Pattern for guard checks, which search for a compiled version."""
    compile_id: str = ""
    """Ranges during compilation whose name contains the compile id. The regex group matches the compile id."""
    wrapping: str = ""
    """Ranges between the call of compiled code and the call of its graphs."""
    resumed: str = ""
    """Frame that resumes after a graph break. Groups: file, interrupted function, line."""
    kernel: str = ""
    """Generated kernel. Groups: code of the kernel's kind (optional), its operators."""
    kinds: tuple[tuple[str, str], ...] = ()
    """Codes in kernel names for the kinds of generated kernels, each with its meaning."""
    operators: tuple[str, ...] = ()
    """Operators whose name contains an underscore. Kernel names also use underscores to separate operators."""
    file: str = ""
    """Key of the extra column that contains the source file of a generated kernel."""


class KernelFacts(msgspec.Struct, frozen=True):
    """Names in profiles for properties of kernels (see ``OpenColumn``); the first that occurs is used."""

    type: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    """Kind of device core that runs the kernel."""
    shapes: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    """Values of ``core`` that have separate columns in the profiler's operator tables."""
    counted_word: str = ""
    """Display name of the cores in ``counted``."""
    first: tuple[str, ...] = ()
    """Columns that are displayed by default in a table of kernels."""


class StepPattern(msgspec.Struct, frozen=True):
    """Names of server iterations: an RE2 expression with the groups of ``steps/annotations.GROUPS``."""

    framework: str
    regex: str
    modes: tuple[tuple[str, str], ...] = ()
    """Mode for each text of the group ``mode``; if empty, the text itself is the mode."""
    mode: str = ""
    """Mode for matching names that contain no mode."""
    speculative: tuple[str, ...] = ()
    """Texts of the group ``mode`` that mean speculative decoding, with unknown tokens per request."""
    source: str = ""
    """Repository and file in which the framework writes these names."""
    checked: str = ""
    """A real trace file that contains matching names; "" if the pattern was never checked on a real trace."""


class Recorder(msgspec.Struct, frozen=True):
    """Names that are specific to one recording tool, and advice for users of the tool."""

    id: str = ""
    name: str = ""
    advice: Mapping[str, Advice] = msgspec.field(default_factory=dict)
    """Advice by rule id, optionally with a case (``.inference``), or by missing view (``view.kernels``)."""
    threads: tuple[ThreadRole, ...] = ()
    """Roles of threads in display order. Each thread has the first role that matches it."""
    packages: tuple[str, ...] = ()
    """Python packages of the framework, whose code users cannot change."""
    stages: StageFrames = StageFrames()
    host: HostNames = HostNames()
    operators: OperatorNames = OperatorNames()
    kernels: KernelFacts = KernelFacts()
    ranges_are_calls: bool = False
    """Whether the operator tables of the tool also contain ranges of the operator category."""
    compiled: CompiledNames = CompiledNames()
    lacks: str = ""
    """Description of data that is never in traces of this tool and format; "" if there is no such data."""
    steps: tuple[StepPattern, ...] = ()
    """Annotations that mark steps. These annotations are used only if the profiler did not mark any steps."""
    parallel: ParallelNames = ParallelNames()
    iterating: str = ""
    """RE2 pattern for names in programs whose iterations are not marked (servers, image pipelines); "" = none."""
    marks: tuple[tuple[str, str], ...] = ()
    """Names of servers, each with an RE2 expression that matches the start of the server's step names."""
    numbers_operators: bool = False
    """Whether external ids are consecutive, with gaps where another thread starts a block of ids."""

    def todo(self, finding: str) -> str:
        advice = self.advice.get(finding)
        return advice.todo if advice else ""

    def snippet(self, finding: str) -> str:
        advice = self.advice.get(finding)
        return advice.snippet if advice else ""

    def references(self, finding: str) -> tuple[tuple[str, str], ...]:
        advice = self.advice.get(finding)
        return advice.references if advice else ()


UNKNOWN_RECORDER = Recorder()
