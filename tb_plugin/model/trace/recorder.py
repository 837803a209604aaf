"""Recording tools: advice for findings and names used by frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Advice:
    """The fix for one finding. ``references`` are (title, URL) of external documents."""

    todo: str
    references: tuple[tuple[str, str], ...] = ()


# For findings without a fix for a tool; a test reports missing entries.
NO_ADVICE = Advice("")


@dataclass(frozen=True)
class ThreadRole:
    """The role of a framework thread, by its name or its events.

    Patterns are RE2 regular expressions, searched; "" matches nothing.
    """

    title: str
    threads: str = ""
    """Matches thread names."""
    events: str = ""
    """Matches event names: one event on the thread is enough."""
    names_only: bool = False
    """Whether all events of the thread have to match."""


@dataclass(frozen=True)
class StageFrames:
    """Stack frames of training stages, as the tool writes them: ``path(line): function``.

    Patterns are RE2 regular expressions, searched; "" matches nothing.
    """

    clear: str = ""
    """Clearing of gradients."""
    step: str = ""
    """The optimizer's step."""
    backward: str = ""
    forward: str = ""
    """A call of a module."""
    setup: str = ""
    """Setup: a module call around it is not a forward pass."""
    data: str = ""
    """Batches are loaded or moved to the device."""
    recomputing: str = ""
    """Forward code called again inside a backward pass."""


@dataclass(frozen=True)
class HostNames:
    """Names of host work that delays a device: operators, annotations and Python calls.

    Patterns are RE2 regular expressions, searched; "" matches nothing.
    """

    compiling: str = ""
    """Compilation of device code."""
    collecting: str = ""
    """Garbage collection of the interpreter."""
    profiling: str = ""
    """The profiler itself."""
    loading: str = ""
    """Loading a batch in the training thread."""
    awaiting: str = ""
    """Waiting for a batch from other processes."""
    deterministic: str = ""
    """Backward operators that may wait for the device in deterministic mode."""
    handing_over: str = ""
    """Runtime calls that wait for another thread of the framework."""


@dataclass(frozen=True)
class OperatorNames:
    """Names of operators by function. Patterns are regular expressions, searched; "" matches nothing."""

    product: str = ""
    """Products of matrices whose factors are the inputs 0 and 1."""
    added_product: str = ""
    """Products of matrices that are added to the input 0: the factors are the inputs 1 and 2."""
    batched_product: str = ""
    """Products of many pairs of matrices at once."""
    single: str = ""
    """Types of inputs with 32-bit numbers."""
    half: str = ""
    """Types of inputs with 16-bit numbers."""
    softmax: str = ""
    """Softmax, forward and backward, without log-softmax."""
    updating: str = ""
    """The range of one step of an optimizer."""
    going_back: str = ""
    """The range of one backward pass."""
    ending: str = ""
    """Ranges of optimizer work other than ``updating``, such as clearing gradients."""
    casting: str = ""
    """Type conversion."""
    learning: str = ""
    """Names that only training has: operators, annotations and device work of a backward pass or an optimizer."""
    laying_out: str = ""
    """Layout conversion, by a copy if the layout differs."""
    reducing: str = ""
    """Operators called in a backward pass to sum a gradient over processes."""
    reshaping: str = ""
    """Reshaping without a change of data."""
    recomputing: str = ""
    """Backward operators that call forward code again."""


@dataclass(frozen=True)
class ParallelNames:
    """Names in distributed training. Patterns are regular expressions, searched; "" matches nothing.

    Ranges are annotations, operators and Python calls around a launch.
    """

    sharding: str = ""
    """Ranges in which shards of parameters or gradients are gathered, reduced, copied or moved."""
    ahead: str = ""
    """Ranges that gather parameters in advance."""
    copying_in: str = ""
    """Ranges that copy shards into send buffers."""
    copying_out: str = ""
    """Ranges that copy gathered data to its destination."""
    sending: str = ""
    """Ranges in which one rank sends to another."""
    receiving: str = ""
    exchanging: str = ""
    """Ranges with simultaneous send and receive."""
    micro_batch: str = ""
    """Ranges of one micro-batch in one stage of a pipeline."""
    offloading: str = ""
    """Ranges whose copies between host and device offload memory."""
    routing: str = ""
    """Kernels and operators that sort tokens to experts."""
    experts: str = ""
    """Operators and kernels of the experts' products."""
    dispatching: str = ""
    """Ranges and kernels that send tokens to their experts."""
    combining: str = ""
    """Ranges and kernels that bring the results back."""
    dimensions: tuple[tuple[str, str], ...] = ()
    """Dimension of a rank group (tensor, pipeline, data, ...) and matching group descriptions; several may match."""
    split_sizes: tuple[str, str] = ("", "")
    """Keys of the open columns with sizes sent to and received from each rank."""


@dataclass(frozen=True)
class CompiledNames:
    """Names in compiled code. Patterns are regular expressions, searched; "" matches nothing."""

    lookup: str = ""
    """Guard checks that look up a compilation."""
    compile_id: str = ""
    """Ranges in a compilation with its id; the group: the numbers of the function and of its compilation."""
    wrapping: str = ""
    """Ranges between the call of compiled code and its graphs."""
    resumed: str = ""
    """Frame of a function resumed after a graph break; groups: file, interrupted function, line."""
    kernel: str = ""
    """A generated kernel; groups: code of its kind (optional), and its operators."""
    kinds: tuple[tuple[str, str], ...] = ()
    """Codes of generated kernels and what they mean."""
    operators: tuple[str, ...] = ()
    """Operators with an underscore in their name, which also separates operators."""
    file: str = ""
    """The open column with the file of a generated kernel."""


@dataclass(frozen=True)
class KernelFacts:
    """Names of kernel properties in profiles (see ``OpenColumn``); the first available one is used."""

    type: tuple[str, ...] = ()
    """The type of computation."""
    core: tuple[str, ...] = ()
    """The part of the device that runs it."""
    shapes: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    """Number of the step that it ran in."""
    counted: tuple[str, ...] = ()
    """Values of ``core`` that the tool's own operator tables count separately."""
    counted_word: str = ""
    """Name of these parts of the device."""
    first: tuple[str, ...] = ()
    """Default columns of a list of kernels."""


@dataclass(frozen=True)
class StepPattern:
    """Names of annotations of server iterations. Several patterns may match one name and add data.

    ``regex`` is an RE2 expression with the named groups of ``model/trace/steps/annotations.py`` (``GROUPS``).
    """

    framework: str
    regex: str
    modes: tuple[tuple[str, str], ...] = ()
    """Texts of the group ``mode`` and their modes; empty: the text is the mode."""
    mode: str = ""
    """Mode of all matches without one in the name."""
    speculative: tuple[str, ...] = ()
    """Texts of the group ``mode`` for which the tokens per request are unknown."""
    source: str = ""
    """Source of the pattern: repository and file."""
    checked: str = ""
    """A real file with such names; "": unchecked."""


@dataclass(frozen=True)
class Recorder:
    """Names and advice of one tool."""

    id: str = ""
    name: str = ""
    """Name of the tool, "" if unknown."""
    advice: Mapping[str, Advice] = field(default_factory=dict)
    """By the id of a rule, of a missing view (``view.kernels``), or of a rule and its case (``.inference``)."""
    threads: tuple[ThreadRole, ...] = ()
    """Roles of threads in display order; the first match is used."""
    packages: tuple[str, ...] = ()
    """The framework's own Python packages, whose lines users cannot change."""
    stages: StageFrames = StageFrames()
    """Stack frames of training stages."""
    host: HostNames = HostNames()
    operators: OperatorNames = OperatorNames()
    kernels: KernelFacts = KernelFacts()
    ranges_are_calls: bool = False
    """Whether its own tables count program ranges with the operator category as operator calls."""
    compiled: CompiledNames = CompiledNames()
    lacks: str = ""
    """Data that traces of this tool in this format never contain; "" for none."""
    steps: tuple[StepPattern, ...] = ()
    """Annotations that mark steps if the profiler marked none."""
    parallel: ParallelNames = ParallelNames()
    iterating: str = ""
    """Programs with unmarked iterations (servers, image pipelines), by frames, operators, annotations.

    An RE2 regular expression, searched; "" matches nothing.
    """
    marks: tuple[tuple[str, str], ...] = ()
    """Servers and prefixes of their step names: RE2 expressions."""
    numbers_operators: bool = False
    """Whether external ids number operators and annotations consecutively, with gaps only between blocks of threads."""

    def todo(self, finding: str) -> str:
        """Returns the fix for a finding, "" if the tool has none."""
        advice = self.advice.get(finding)
        return advice.todo if advice else ""

    def references(self, finding: str) -> tuple[tuple[str, str], ...]:
        """Returns (title, URL) of documents about a finding."""
        advice = self.advice.get(finding)
        return advice.references if advice else ()


UNKNOWN_RECORDER = Recorder()
