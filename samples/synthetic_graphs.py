"""Invent traces of a model whose steps are captured as graphs and replayed, and tell what each replay stands for.

A small language model writes one token for a batch of requests: it runs once as usual, is captured (its launches
bring no work then), and is replayed. A kernel takes as long in a replay as in the step that ran as usual, so what
operators and modules come to in N replays is N times what they come to in that step, to the nanosecond. Who reads
such a trace has to find that out from what it holds: annotations beside the kernels, the capture, a trace of the
capture beside it, the step that ran as usual, or nothing. The clocks, threads, streams and the form of the file are
those of `gpu_training`.

In one file: the model, its capture and its replays share the clocks and kernels of one process.

Nothing here was recorded. Numbers of calls (`cbid`, `cid`) that no recording shows are invented as well; so are
the names `capture_traces/bs_<batch>.pt.trace.json.gz`.

In one file: the model, its capture and its replays use the same numbers.

usage: python samples/synthetic_graphs.py OUT_DIR [--batch 8 ...] [--layers 2] [--replays 3] [--no-warm-up]
       [--capture same|beside|sibling|eager|none] [--wrong kernel|layers] [--annotations] [--no-ids] [--py-stacks]
       [--steps serving|profiler] [--streams 1|2] [--arch cuda|rocm] [--seed 0] [--plain] [--truth FILE]
"""

# ruff: noqa: SIM117 (a `with` inside a `with` is an event inside an event: the nesting is the picture)

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path

from events import Json, write_pieces, write_truth
from gpu_training.config import BASE_NS, CELL_NS, PACE, Config, us
from gpu_training.kineto import trace_text
from gpu_training.recorder import Activity, HostThread, Recorder

WIDTH, VOCABULARY, CONTEXT = 2048, 16_000, 1024
CAPTURES = ("same", "beside", "sibling", "eager", "none")
STEPS = ("serving", "profiler")
WRONG = ("", "kernel", "layers")
CALLS = {
    "cuda": {
        "begin_capture": ("cuda_runtime", "cudaStreamBeginCapture", 305),
        "is_capturing": ("cuda_runtime", "cudaStreamIsCapturing", 317),
        "end_capture": ("cuda_runtime", "cudaStreamEndCapture", 306),
        "instantiate": ("cuda_runtime", "cudaGraphInstantiate", 310),
    },
    "rocm": {
        "begin_capture": ("cuda_runtime", "hipStreamBeginCapture", 285),
        "is_capturing": ("cuda_runtime", "hipStreamIsCapturing", 290),
        "end_capture": ("cuda_runtime", "hipStreamEndCapture", 287),
        "instantiate": ("cuda_runtime", "hipGraphInstantiate", 211),
    },
}


@dataclass(frozen=True)
class Plan:
    batches: tuple[int, ...] = (8,)
    layers: int = 2
    replays: int = 3  # of each graph
    capture: str = (
        "same"  # in the trace of the replays, in a folder or file beside it, not recorded (eager: a step is), nothing
    )
    warm_up: bool = True  # the capture's recording also has the step that ran before it
    wrong: str = ""  # the capture beside is of a model with another kernel, or with one layer more
    annotations: bool = False
    ids: bool = True  # of graphs and nodes, as CUPTI has them since CUDA 12
    py_stacks: bool = False
    steps: str = "serving"
    streams: int = 1  # 2: what is kept for later tokens is copied beside the main stream
    arch: str = "cuda"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", tuple(self.batches))  # JSON knows only lists
        if self.capture not in CAPTURES or self.steps not in STEPS or self.wrong not in WRONG:
            raise ValueError(f"capture is one of {CAPTURES}, steps of {STEPS}, wrong of {WRONG}")
        if len(set(self.batches)) < len(self.batches) or min(*self.batches, self.layers, self.replays, 1) < 1:
            raise ValueError("batches differ; batches, layers and replays are at least 1")
        if self.wrong and self.capture not in ("beside", "sibling"):
            raise ValueError("only a capture beside can be wrong")
        if self.arch == "rocm" and (self.annotations or self.py_stacks):
            raise ValueError("only CUDA tells nodes of graphs apart")

    @property
    def has_ids(self) -> bool:
        return self.arch == "cuda" and (self.ids or self.annotations or self.py_stacks)


@dataclass(frozen=True)
class Node:
    """Work of a graph: what was launched, from where."""

    work: Activity
    frames: tuple[str, ...]
    """Python around the launch, innermost first, as dump_kernel_py_stacks writes it."""

    @property
    def region(self) -> str:
        """What this program marks kernels with."""
        blocks = [name.partition("_")[2] for name in self.work.modules if name.startswith("Block_")]
        part = next((name for name in self.work.modules if name.startswith(("Attention_", "MLP_"))), "")
        if not blocks:
            return "embed" if any(name.startswith("Embedding_") for name in self.work.modules) else "head"
        return f"layers.{blocks[0]}" + (f".{part.partition('_')[0].lower()}" if part else "")


@dataclass(frozen=True)
class Wait:
    """One stream waits for what the other one has."""

    stream: int
    other: int


@dataclass
class Graph:
    batch: int
    number: int
    parts: list[Node | Wait] = field(default_factory=list)
    replays: list[list[Activity]] = field(default_factory=list)
    launches: list[int] = field(default_factory=list)
    """Cells that each launch took."""

    @property
    def nodes(self) -> list[Node]:
        return [part for part in self.parts if isinstance(part, Node)]

    def node_id(self, place: int) -> int:
        return self.number << 32 | place + 1


# ---------------------------------------------------------------------------------------------------- the profiler


class GraphRecorder(Recorder):
    """A profiler that also sees captures: launches without work, and work without launches of its own."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(Config(streams=plan.streams, arch=plan.arch, seed=plan.seed), 0)
        self.plan = plan
        self.dialect = replace(self.dialect, calls=self.dialect.calls | CALLS[plan.arch])
        self.branch = self.streams[-1]
        self.capturing: Graph | None = None
        self.called: list[str] = []
        self.gaps = random.Random(f"{plan.seed} gaps")
        self.head = {"synthetic": "made by samples/synthetic_graphs.py, not recorded", "profile_memory": None}
        if plan.annotations:
            self.head["cudaGraphInlineAnnotated"] = True

    @contextmanager
    def frame(self, name: str, module_id: int | None = None) -> Iterator[None]:
        self.called.append(name)
        with super().frame(name, module_id):
            yield
        self.called.pop()

    def cells(self, micros: float) -> int:
        """The planned duration: `random` begins anew with every run of the model, which makes them equal."""
        return us(micros * PACE * self.random.uniform(0.9, 1.1))

    def queue(
        self, thread: HostThread, kind: str, name: str, cells: int, stream: int, correlation: int, args: Json,
        ready: int = 0,
    ) -> Activity:  # fmt: skip
        if self.capturing is None:
            return super().queue(thread, kind, name, cells, stream, correlation, args, ready)
        owners = tuple(opened.name for opened in thread.ops)
        work = Activity(
            kind, name, thread.now, cells, stream, correlation, owners, self.modules_open, False, True, -1, args, None
        )
        lines = [
            f"{file}:{line}:{function}"
            for file, line, function in (_place(name) for name in reversed(self.called))
            if line
        ]
        self.capturing.parts.append(Node(work, tuple(lines)))
        return work

    def wait(self, stream: int, other: int) -> None:
        """What follows on a stream waits for what another one has so far."""
        if stream == other:
            return
        self.call(self.main, "record", us(2))
        self.call(self.main, "wait", us(2))
        if self.capturing is None:
            self.free_at[stream] = max(self.free_at[stream], self.free_at[other])
        else:
            self.capturing.parts.append(Wait(stream, other))

    def replay(self, graph: Graph) -> None:
        """One launch; a node begins soon after what it follows on its stream has ended."""
        correlation = self.call(self.main, "graph", us(9 + 0.2 * len(graph.nodes)), linked=True)
        graph.launches.append(us(9 + 0.2 * len(graph.nodes)))
        begin, placed = self.main.now + us(4), []
        for part in graph.parts:
            if isinstance(part, Wait):
                self.free_at[part.stream] = max(self.free_at[part.stream], self.free_at[part.other])
                continue
            work, ready = part.work, begin
            if placed:
                ready = max(begin, self.free_at[work.stream]) + self.gaps.choice((5, 7, 8, 9, 12, 40))
            args = dict(work.args)
            if self.plan.has_ids:
                args |= {"graph id": graph.number, "graph node id": graph.node_id(len(placed))}
            if self.plan.annotations:
                args["name"] = part.region
            placed.append(
                super().queue(self.main, work.kind, work.name, work.cells, work.stream, correlation, args, ready)
            )
        graph.replays.append(placed)

    def synchronize(self) -> None:
        end = max(activity.end for activity in self.activities)
        self.call(self.main, "synchronize", max(us(3), end + us(2) - self.main.now))


def _place(frame: str) -> tuple[str, str, str]:
    """File, line and function of a Python frame; without a line where it is none of a file."""
    where, _, function = frame.partition("): ")
    file, _, line = where.partition("(")
    return (file, line, function) if line.isdigit() else ("", "", "")


# --------------------------------------------------------------------------------------------------------- the model


class Model:
    """The invented program: one token for each request of a batch, as usual, captured, or replayed."""

    def __init__(self, recorder: GraphRecorder, wrong: str = "") -> None:
        self.r, self.wrong = recorder, wrong
        self.layers = recorder.plan.layers + (wrong == "layers")

    def run(self, batch: int) -> None:
        """One step of the model: `wrong` is another one, which nothing but a kernel or a layer tells apart."""
        r = self.r
        r.random = random.Random(f"{r.plan.seed} {batch}")
        with r.module("GPT", 0):
            with r.module("Embedding", 0), r.frame("<built-in function embedding>"):
                self.op(["aten::embedding", "aten::index_select"], [VOCABULARY, WIDTH], ("embedding", 4, batch))
            for layer in range(self.layers):
                with r.module("Block", layer):
                    self.norm(2 * layer, batch)
                    with r.module("Attention", layer):
                        self.linear(4 * layer, batch, 3 * WIDTH, 21)
                        self.attend(batch)
                        self.linear(4 * layer + 1, batch, WIDTH, 9)
                    self.op(["aten::add"], [batch, WIDTH], ("add", 3, batch))
                    self.norm(2 * layer + 1, batch)
                    with r.module("MLP", layer):
                        self.linear(4 * layer + 2, batch, 4 * WIDTH, 26)
                        with r.module("GELU", layer):
                            other = self.wrong == "kernel" and layer == self.layers - 1
                            self.op(["aten::gelu"], [batch, 4 * WIDTH], ("softmax" if other else "gelu", 4, batch * 4))
                        self.linear(4 * layer + 3, batch, WIDTH, 27)
                    self.op(["aten::add"], [batch, WIDTH], ("add", 3, batch))
            self.norm(2 * self.layers, batch)
            self.linear(4 * self.layers, batch, VOCABULARY, 60)

    def op(self, names: list[str], shape: list[int], *kernels: tuple[str, float, int]) -> None:
        """Operators in each other; the innermost launches kernels (word, microseconds, blocks)."""
        r = self.r
        with ExitStack() as opened:
            for name in names:
                opened.enter_context(r.op(r.main, name, shape, before=3, after=1.5))
            for key, micros, blocks in kernels:
                r.kernel(r.main, key, micros, blocks)

    def norm(self, number: int, batch: int) -> None:
        with self.r.module("LayerNorm", number), self.r.frame("<built-in function layer_norm>"):
            self.op(["aten::layer_norm", "aten::native_layer_norm"], [batch, WIDTH], ("layer_norm", 4, batch))

    def linear(self, number: int, batch: int, outputs: int, micros: float) -> None:
        """A product whose parts are added up in memory that is filled with zeros first, where it is a small one."""
        r = self.r
        with r.module("Linear", number), r.frame("<built-in function linear>"):
            with r.op(r.main, "aten::linear", [batch, WIDTH], [outputs, WIDTH]):
                with r.op(r.main, "aten::addmm", [outputs], [batch, WIDTH], [WIDTH, outputs], before=5):
                    if outputs == WIDTH:
                        r.memset(r.main, batch * outputs * 4, 2)
                    r.kernel(r.main, "gemm", micros + batch / 16, outputs // 64 + batch // 8, 384, word="gemm")

    def attend(self, batch: int) -> None:
        """Keeps what later tokens need and attends to what earlier ones kept, in parts that a second kernel joins."""
        r = self.r
        r.wait(r.branch, r.compute)
        with r.frame("model.py(71): keep"), r.op(r.main, "aten::index_put_", [batch, WIDTH]):
            with r.op(r.main, "aten::copy_", [batch, WIDTH], [batch, WIDTH]):
                r.memcpy(r.main, "DtoD", batch * WIDTH * 4, 3, r.branch)
        r.wait(r.compute, r.branch)
        names = ["aten::scaled_dot_product_attention", "aten::_flash_attention_forward"]
        with r.frame("<built-in function scaled_dot_product_attention>"):
            size = 12 + batch * CONTEXT / 2000
            self.op(names, [batch, 16, 1, 128], ("attention", size, batch * 16), ("reduce", 4, batch))

    def sample(self, batch: int) -> None:
        """Chooses the tokens and gets them to the host: never captured."""
        r = self.r
        with r.frame("serve.py(58): sample"):
            self.op(["aten::argmax"], [batch, VOCABULARY], ("reduce", 7, batch))
            with r.op(r.main, "aten::to", [batch], before=4), r.op(r.main, "aten::_to_copy", [batch]):
                r.memcpy(r.main, "DtoH", batch * 8, 2, r.compute)
            r.synchronize()

    def capture(self, graph: Graph, warm_up: bool) -> None:
        """As frameworks begin: a step as usual, then the same as a graph."""
        r = self.r
        with r.frame("torch/cuda/graphs.py(331): capture"):
            if warm_up:
                self.run(graph.batch)
                r.synchronize()
            r.call(r.main, "begin_capture", us(6))
            r.capturing = graph
            self.run(graph.batch)
            r.call(r.main, "is_capturing", us(1))
            r.capturing = None
            r.call(r.main, "end_capture", us(30))
            r.call(r.main, "instantiate", us(180))
            r.spend(r.main, us(50))

    def serve(self, name: str, batch: int, graph: Graph | None) -> None:
        """One iteration: the graph is replayed, or the step runs as usual."""
        r = self.r
        with r.annotation(r.main, name):
            with r.frame("serve.py(37): run_batch"):
                r.spend(r.main, us(40))
                if graph is None:
                    self.run(batch)
                else:
                    with r.frame("torch/cuda/graphs.py(161): replay"):
                        with r.frame("<built-in method replay of CUDAGraph object at 0x7f3b754cea40>"):
                            r.replay(graph)
            self.sample(batch)
        with r.frame("serve.py(66): schedule"):
            r.spend(r.main, us(30 + r.gaps.randrange(60)))


# --------------------------------------------------------------------------------------------------------- the truth


def _sums(of: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, cells in of:
        found[name] += cells * CELL_NS
    return dict(sorted(found.items()))


def account(nodes: Sequence[Node], times: int = 1) -> Json:
    """What device time operators, modules (by path) and regions come to when these nodes run so many times."""
    works = [(node.work, node.work.cells * times) for node in nodes]
    return {
        "device_ns": sum(cells for _, cells in works) * CELL_NS,
        "operators_self_ns": _sums((work.owners[-1], cells) for work, cells in works),
        "operators_total_ns": _sums((name, cells) for work, cells in works for name in dict.fromkeys(work.owners)),
        "modules_total_ns": _sums(
            ("/".join(work.modules[:depth]), cells)
            for work, cells in works
            for depth in range(1, len(work.modules) + 1)
        ),
        "regions_ns": _sums((node.region, node.work.cells * times) for node in nodes),
    }


def idle(activities: Iterable[Activity], begin: int, end: int) -> int:
    """How long nothing of these runs between two cells, in nanoseconds."""
    found, at = 0, begin
    for work in sorted(activities, key=lambda work: work.start):
        if work.end > begin and work.start < end:
            found += max(0, work.start - at)
            at = max(at, work.end)
    return (found + max(0, end - at)) * CELL_NS


def graph_truth(graph: Graph, everything: list[Activity], before: dict[int, int]) -> Json:
    """What the replays of one graph come to. `before`: where earlier replays of any graph end, by the begin of the next."""
    gaps, between = 0, 0
    for replay in graph.replays:
        begin, end = replay[0].start, max(work.end for work in replay)
        gaps += idle(replay, begin, end)
        between += idle(everything, before[begin], begin) if begin in before else 0
    return {
        "batch": graph.batch, "graph_id": graph.number, "nodes": len(graph.nodes), "replays": len(graph.replays),
        "device_ns": sum(work.cells for replay in graph.replays for work in replay) * CELL_NS,
        "node_gaps_ns": gaps, "replay_gaps_ns": between, "launch_ns": sum(graph.launches) * CELL_NS,
        "one": account(graph.nodes), "all": account(graph.nodes, len(graph.replays)),
    }  # fmt: skip


def first_difference(right: Graph, wrong: Graph) -> Json:
    """Where two graphs differ first in what they run, and on what grid."""
    both = [[(n.work.name, n.work.args.get("grid")) for n in graph.nodes] for graph in (right, wrong)]
    place = next(
        (i for i, (one, other) in enumerate(zip(*both, strict=False)) if one != other), min(len(both[0]), len(both[1]))
    )
    replayed, captured = (names[place][0] if place < len(names) else None for names in both)
    return {"batch": right.batch, "node": place, "replayed": replayed, "captured": captured}


# ---------------------------------------------------------------------------------------------------- all together


@dataclass(frozen=True)
class File:
    """A trace as it will be written, or the stacks of kernels."""

    path: str
    """In the folder of the run, without .gz."""
    recorder: GraphRecorder | None
    stacks: Json | None = None

    def text(self) -> str:
        if self.recorder is None:
            return json.dumps(self.stacks)
        return "".join(trace_text(self.recorder, Path(self.path).name))


def _program(recorder: GraphRecorder) -> ExitStack:
    frames = ExitStack()
    frames.enter_context(recorder.frame("serve.py(91): <module>"))
    frames.enter_context(recorder.frame("serve.py(80): main"))
    return frames


def _capture_traces(plan: Plan, graphs: list[Graph]) -> tuple[list[File], list[Json]]:
    """The traces of captures beside that of the replays, and why they are to be refused."""
    files, refused = [], []
    together = GraphRecorder(plan)
    for graph in graphs:
        recorder = together if plan.capture == "sibling" else GraphRecorder(plan)
        seen = Graph(graph.batch, graph.number)
        with _program(recorder):
            Model(recorder, plan.wrong).capture(seen, plan.warm_up)
        if plan.wrong:
            refused.append(first_difference(graph, seen))
        if recorder is not together:
            files.append(File(f"capture_traces/bs_{graph.batch}.pt.trace.json", recorder))
    if plan.capture == "sibling":
        files.append(File("worker0_capture.pt.trace.json", together))
    return files, refused


def generate(plan: Plan) -> tuple[list[File], Json]:
    """Returns the files of a run, that of the replays first, and the truth."""
    recorder = GraphRecorder(plan)
    model = Model(recorder)
    graphs = [Graph(batch, 3 + 2 * place) for place, batch in enumerate(plan.batches)]
    told, step = recorder if plan.capture == "same" else GraphRecorder(plan), 0

    def serve(batch: int, graph: Graph | None) -> None:
        nonlocal step
        name = f"ProfilerStep#{step}" if plan.steps == "profiler" else f"step[DECODE bs={batch}]"
        model.serve(name, batch, graph)
        step += 1

    with _program(told), ExitStack() as opened:
        with told.frame("serve.py(22): capture_graphs"):
            for graph in graphs:
                Model(told).capture(graph, told is recorder and plan.warm_up)
        if told is not recorder:
            opened.enter_context(_program(recorder))
        if plan.capture == "eager":
            for graph in graphs:
                serve(graph.batch, None)
        order = [graph for graph in graphs for _ in range(plan.replays)]
        recorder.gaps.shuffle(order)
        for graph in order:
            serve(graph.batch, graph)
    files = [File(f"worker0.{BASE_NS + recorder.ns(recorder.main.now)}.pt.trace.json", recorder)]
    refused: list[Json] = []
    if plan.capture in ("beside", "sibling"):
        more, refused = _capture_traces(plan, graphs)
        files += more
    if plan.py_stacks:
        stacks = {str(g.node_id(i)): "\n".join(node.frames) for g in graphs for i, node in enumerate(g.nodes)}
        files.append(File("worker0.kernel_py_stacks.json", None, stacks))
    return files, truth_document(plan, recorder, graphs, refused)


def truth_document(plan: Plan, recorder: GraphRecorder, graphs: list[Graph], refused: list[Json]) -> Json:
    """What the plan says of the trace of the replays. `eager`: what ran as usual, less the choice of tokens."""
    everything = recorder.activities
    spans = sorted((replay[0].start, max(work.end for work in replay)) for graph in graphs for replay in graph.replays)
    before = {begin: end for (_, end), (begin, _) in pairwise(spans)}
    runs_eagerly = plan.capture == "eager" or (plan.capture == "same" and plan.warm_up)
    nodes = [node for graph in graphs for node in graph.nodes]
    return {
        "synthetic": True, "plan": asdict(plan), "cell_ns": CELL_NS, "base_time_ns": BASE_NS,
        "device_ns": sum(work.cells for work in everything) * CELL_NS,
        "eager": account(nodes) if runs_eagerly else None,
        "replayed": account(nodes, plan.replays),
        "graphs": [graph_truth(graph, everything, before) for graph in graphs],
        "way": {"same": "capture", "beside": "capture_trace", "sibling": "capture_trace"}.get(plan.capture, plan.capture),
        "refused": refused,
    }  # fmt: skip


def write(files: list[File], out_dir: Path, compressed: bool = True) -> list[Path]:
    """Writes all files."""
    return [
        write_pieces(out_dir / (file.path + (".gz" if compressed or file.stacks is not None else "")), [file.text()])
        for file in files
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("out_dir", type=Path, help="folder of the run; created")
    parser.add_argument(
        "--batch", dest="batches", type=int, action="append", help="requests in a batch: a graph for each"
    )
    parser.add_argument("--layers", type=int, default=2, help="blocks of the model")
    parser.add_argument("--replays", type=int, default=3, help="of each graph")
    parser.add_argument("--capture", choices=CAPTURES, default="same", help="what the files hold besides replays")
    parser.add_argument(
        "--no-warm-up", dest="warm_up", action="store_false", help="no step as usual beside the capture"
    )
    parser.add_argument("--wrong", choices=WRONG, default="", help="the capture beside is of another model")
    parser.add_argument(
        "--annotations", action="store_true", help="regions beside the kernels, as PyTorch 2.15 has them"
    )
    parser.add_argument(
        "--no-ids", dest="ids", action="store_false", help="no ids of graphs and nodes, as before CUDA 12"
    )
    parser.add_argument("--py-stacks", action="store_true", help="also write what dump_kernel_py_stacks would")
    parser.add_argument("--steps", choices=STEPS, default="serving", help="names of steps")
    parser.add_argument("--streams", type=int, choices=(1, 2), default=1)
    parser.add_argument("--arch", choices=sorted(CALLS), default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="write .json, not .json.gz")
    parser.add_argument("--truth", type=Path, default=None, help="write the truth to this JSON file")
    chosen = parser.parse_args(arguments)
    chosen.batches = chosen.batches or (8,)
    plan = Plan(**{each.name: getattr(chosen, each.name) for each in fields(Plan)})
    files, truth = generate(plan)
    for path in write(files, chosen.out_dir, not chosen.plain):
        print(f"{path}  {path.stat().st_size:,} bytes")
    write_truth(chosen.truth, truth, indent=1)


if __name__ == "__main__":
    main()
