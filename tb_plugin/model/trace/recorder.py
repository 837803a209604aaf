"""The tool that recorded a trace, in words: what to do about a finding, and how to have it record more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Advice:
    """What to do about one finding. ``references`` are (title, URL) of outside documents."""

    todo: str
    references: tuple[tuple[str, str], ...] = ()


NO_ADVICE = Advice("")
"""Says that a tool has no advice about a finding: no entry at all is an oversight, which a test reports."""


@dataclass(frozen=True)
class ThreadRole:
    """What a thread of the framework does, known by the name that it gave itself, or by what ran on it.

    Patterns are regular expressions of RE2, searched; "" matches nothing.
    """

    title: str
    threads: str = ""
    """Of names of threads."""
    events: str = ""
    """Of names of events: one of them on the thread is enough."""
    only: bool = False
    """All events of the thread have to be such."""


@dataclass(frozen=True)
class StageFrames:
    """Frames that tell what a training does, as the tool's stacks write them: ``path(line): function``.

    Patterns are regular expressions of RE2, searched; "" matches nothing.
    """

    clear: str = ""
    """Clearing of gradients."""
    step: str = ""
    """The optimizer's step."""
    backward: str = ""
    forward: str = ""
    """A call of a module."""
    setup: str = ""
    """Something is made: a call of a module around it is no forward pass yet."""
    data: str = ""
    """Batches are loaded or moved to the device."""
    recomputing: str = ""
    """Forward code is called again, inside of a backward pass."""


@dataclass(frozen=True)
class HostNames:
    """What the host does that holds a device up, known by the names of operators, annotations and Python calls.

    Patterns are regular expressions of RE2, searched; "" matches nothing.
    """

    compiling: str = ""
    """Code for the device is made."""
    collecting: str = ""
    """The interpreter collects garbage."""
    profiling: str = ""
    """The profiler itself is at work."""
    loading: str = ""
    """The training's own thread loads a batch."""
    awaiting: str = ""
    """A batch is awaited that other processes load."""
    deterministic: str = ""
    """Backward operators that work in another way, and may wait for the device, where results have to be reproducible."""
    handing_over: str = ""
    """Runtime calls in which a thread waits for another thread of the framework, which works meanwhile."""


@dataclass(frozen=True)
class OperatorNames:
    """What operators do, by their names. Patterns are regular expressions, searched; "" matches nothing."""

    product: str = ""
    """Products of matrices whose factors are the inputs 0 and 1."""
    added_product: str = ""
    """Products of matrices that are added to the input 0: the factors are the inputs 1 and 2."""
    batched_product: str = ""
    """Products of many pairs of matrices at once."""
    single: str = ""
    """Types of inputs with numbers of 32 bit."""
    half: str = ""
    """Types of inputs with numbers of 16 bit."""
    softmax: str = ""
    """Softmax, forward and backward, that is no logarithm."""
    updating: str = ""
    """The range of one step of an optimizer."""
    going_back: str = ""
    """The range of one backward pass."""
    ending: str = ""
    """Ranges of what an optimizer does, also where they are no ``updating``: clearing of gradients among them."""
    casting: str = ""
    """Numbers become those of another type."""
    learning: str = ""
    """What only a training does: names of operators, annotations and device work of a backward pass or an optimizer."""
    laying_out: str = ""
    """A tensor gets the layout in memory that is asked for, by a copy where it has another one."""
    reducing: str = ""
    """Operators that a backward pass calls itself to sum a gradient over processes, as soon as it is there."""
    reshaping: str = ""
    """A tensor gets another shape, and its numbers stay as they are."""
    recomputing: str = ""
    """Backward operators that call forward code again."""


@dataclass(frozen=True)
class ParallelNames:
    """How trainings on many devices name what they do. Patterns are regular expressions, searched; "" matches nothing.

    Ranges are annotations, operators and Python calls around a launch.
    """

    sharding: str = ""
    """Ranges in which shards of parameters or gradients are gathered, reduced, copied or moved."""
    ahead: str = ""
    """Ranges in which parameters are gathered that are needed later."""
    copying_in: str = ""
    """Ranges that copy shards into what is sent."""
    copying_out: str = ""
    """Ranges that copy what was gathered to where it is used."""
    sending: str = ""
    """Ranges in which one rank sends to another."""
    receiving: str = ""
    exchanging: str = ""
    """Ranges in which ranks send and receive at once."""
    micro_batch: str = ""
    """Ranges of one micro-batch in one stage of a pipeline."""
    offloading: str = ""
    """Ranges whose copies between host and device move what a device has no memory for."""
    routing: str = ""
    """Kernels and operators that sort tokens to experts."""
    experts: str = ""
    """Operators and kernels of the experts' products."""
    dispatching: str = ""
    """Ranges and kernels that send tokens to their experts."""
    combining: str = ""
    """Ranges and kernels that bring the results back."""
    dimensions: tuple[tuple[str, str], ...] = ()
    """What a group of ranks divides (tensor, pipeline, data, ...), and descriptions of such groups; several may fit."""
    split_sizes: tuple[str, str] = ("", "")
    """Keys of the open columns with what a rank gives to each other one, and gets."""


@dataclass(frozen=True)
class CompiledNames:
    """What compiled code calls its parts. Patterns are regular expressions, searched; "" matches nothing."""

    lookup: str = ""
    """Guards are checked, to find the compilation of a function that fits."""
    compile_id: str = ""
    """Ranges in a compilation that say of what it is; the group: the numbers of the function and of its compilation."""
    wrapping: str = ""
    """Ranges of what stands between the call of compiled code and its graphs."""
    resumed: str = ""
    """Frame of a function that goes on behind a break; its groups are the file, the function that broke off, and the line."""
    kernel: str = ""
    """A generated kernel; its groups are the code of what it is (there may be none), and the operators in it."""
    kinds: tuple[tuple[str, str], ...] = ()
    """Codes of generated kernels and what they mean."""
    operators: tuple[str, ...] = ()
    """Operators with an underscore in their name, which is also what stands between two operators."""
    file: str = ""
    """The open column with the file of a generated kernel."""


@dataclass(frozen=True)
class KernelFacts:
    """Under which names a profile states what it knows of its kernels (see ``OpenColumn``); of several the first counts."""

    type: tuple[str, ...] = ()
    """What the kernel computes, without what makes its name one of its own."""
    core: tuple[str, ...] = ()
    """The part of the device that runs it."""
    shapes: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    """Number of the step that it ran in."""
    counted: tuple[str, ...] = ()
    """Values of ``core`` whose time the tool's own tables of operators count beside that of all kernels."""
    counted_word: str = ""
    """What these parts of the device are called."""
    first: tuple[str, ...] = ()
    """The facts that a list of kernels shows before anybody chooses others."""


@dataclass(frozen=True)
class StepPattern:
    """Names of annotations by which a server marks its iterations. Several may know one name: each tells what it can.

    ``regex`` is one of RE2 with named groups, of ``model/trace/steps/annotations.py`` (``GROUPS``).
    """

    framework: str
    regex: str
    modes: tuple[tuple[str, str], ...] = ()
    """What the group ``mode`` says, and the mode that it means; empty: it says the mode itself."""
    mode: str = ""
    """Mode of all that it knows, where the name says none."""
    speculative: tuple[str, ...] = ()
    """What the group ``mode`` says where nobody can tell from the name how many tokens a request gets."""
    source: str = ""
    """Where the form is written down: repository and file."""
    checked: str = ""
    """A real file in which it was seen; "" for none: it is unchecked."""


@dataclass(frozen=True)
class Recorder:
    """One tool's words. Analyses name a finding; what a person does about it depends on the tool."""

    id: str = ""
    name: str = ""
    """What the tool is called, "" when nobody knows."""
    advice: Mapping[str, Advice] = field(default_factory=dict)
    """By the id of a rule, of a view that is missing (``view.kernels``), or of a rule and its case (``.inference``)."""
    threads: tuple[ThreadRole, ...] = ()
    """What the framework's threads do; the first that fits counts, and in this order they are shown."""
    packages: tuple[str, ...] = ()
    """The framework's own Python packages: a line in them is nobody's to change."""
    stages: StageFrames = StageFrames()
    """Which frames of a stack tell the stage of a training."""
    host: HostNames = HostNames()
    operators: OperatorNames = OperatorNames()
    kernels: KernelFacts = KernelFacts()
    ranges_are_calls: bool = False
    """Ranges of the program that it writes with the category of operators are calls of operators in its own tables."""
    compiled: CompiledNames = CompiledNames()
    lacks: str = ""
    """What traces of this tool in this format never hold, though the tool knows it; "" where that is nothing."""
    steps: tuple[StepPattern, ...] = ()
    """Annotations that mark steps where the profiler itself marked none."""
    parallel: ParallelNames = ParallelNames()
    iterating: str = ""
    """Programs that work in iterations without a mark (servers, pipelines of pictures), by frames, operators, annotations.

    A regular expression of RE2, searched; "" matches nothing.
    """
    marks: tuple[tuple[str, str], ...] = ()
    """Servers, and how the names begin by which they mark steps, whatever form the rest has: expressions of RE2."""
    numbers_operators: bool = False
    """External ids number operators and annotations one after another; only threads leave gaps between blocks of ids."""

    def todo(self, finding: str) -> str:
        """Returns what to do about a finding, "" where the tool has no words for it (and perhaps no such option)."""
        advice = self.advice.get(finding)
        return advice.todo if advice else ""

    def references(self, finding: str) -> tuple[tuple[str, str], ...]:
        """Returns (title, URL) of documents worth reading about a finding."""
        advice = self.advice.get(finding)
        return advice.references if advice else ()


UNKNOWN_RECORDER = Recorder()
