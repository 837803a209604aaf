"""FLOPs of matrix products, convolutions and attention equal those of PyTorch's FlopCounterMode."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

from torch import nn  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count  # noqa: E402

from tb_plugin.analysis.work.formulas import work_of  # noqa: E402

Run = Callable[[], object]


def recorded_flops(run: Run, path: Path) -> float:
    """Returns the FLOPs of the outermost operators with a formula that matrix units can do."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        run()
    prof.export_chrome_trace(str(path))
    events = [each for each in json.loads(path.read_text())["traceEvents"] if each.get("cat") == "cpu_op"]
    total, until = 0.0, {}
    for event in sorted(events, key=lambda each: (each["ts"], -each["dur"])):
        args = event["args"]
        texts = [json.dumps(args.get(key)) for key in ("Input Dims", "Input type", "Concrete Inputs")]
        work = work_of(event["name"], *texts)
        if work is None or event["ts"] < until.get(event["tid"], 0):
            continue
        until[event["tid"]] = event["ts"] + event["dur"]
        total += work.flops if work.is_matrix else 0
    return total


def counted_flops(run: Run) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def products() -> Run:
    model = nn.Sequential(nn.Linear(32, 64, bias=False), nn.ReLU(), nn.Linear(64, 16, bias=False))
    image = torch.randn(8, 32)

    def run() -> None:
        (model(image).sum() + torch.bmm(torch.randn(3, 4, 5), torch.randn(3, 5, 6)).sum()).backward()

    return run


def convolutions() -> Run:
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False),
        nn.Conv2d(8, 8, 3, dilation=2, bias=False),
        nn.ConvTranspose2d(8, 4, 2, stride=2, bias=False),
    )
    image = torch.randn(2, 4, 20, 20)
    return lambda: model(image).sum().backward()


def scaled_products() -> Run:
    left = torch.ones(32, 16).to(torch.float8_e4m3fn)
    right, scale = torch.ones(24, 16).to(torch.float8_e4m3fn).t(), torch.tensor(1.0)
    return lambda: torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16)


@pytest.mark.parametrize("build", [products, convolutions, scaled_products])
def test_flops_equal_those_of_the_flop_counter(build: Callable[[], Run], tmp_path: Path) -> None:
    torch.manual_seed(0)
    run = build()
    run()
    assert recorded_flops(run, tmp_path / "trace.json") == counted_flops(run) > 0


def test_attention_equals_the_formulas_of_the_flop_counter(tmp_path: Path) -> None:
    """The counter itself leaves out the operators of the CPU."""
    q, k, v = (torch.randn(2, 4, length, 16, requires_grad=True) for length in (24, 40, 40))
    shapes = tuple(q.shape), tuple(k.shape), tuple(v.shape)
    found = recorded_flops(lambda: scaled_dot_product_attention(q, k, v).sum().backward(), tmp_path / "trace.json")
    assert found == sdpa_flop_count(*shapes) + sdpa_backward_flop_count(shapes[0], *shapes)


def test_what_differs_from_the_flop_counter(tmp_path: Path) -> None:
    """A bias counts one operation per output, and a causal mask leaves out pairs."""
    model, image = nn.Linear(32, 64), torch.randn(8, 32)
    biased = recorded_flops(lambda: model(image), tmp_path / "bias.json")
    assert biased == counted_flops(lambda: model(image)) + 8 * 64
    q = torch.randn(2, 4, 10, 16)
    causal = recorded_flops(lambda: scaled_dot_product_attention(q, q, q, is_causal=True), tmp_path / "causal.json")
    assert causal == sdpa_flop_count(*[tuple(q.shape)] * 3) * 55 / 100


def test_a_grouped_convolution_counts_the_same_for_each_gradient(tmp_path: Path) -> None:
    """The counter takes the gradient of the weight for one of a convolution without groups."""
    model, image = nn.Conv2d(8, 8, 3, groups=2, bias=False), torch.randn(2, 8, 10, 10, requires_grad=True)
    forward = recorded_flops(lambda: model(image), tmp_path / "forward.json")
    both = recorded_flops(lambda: model(image).sum().backward(), tmp_path / "backward.json")
    assert (forward, both) == (counted_flops(lambda: model(image)), 3 * forward)


@pytest.mark.parametrize(
    ("left", "right", "axes"),
    [((32, 16), (4, 16, 24), (0, None)), ((8, 32), (32, 24), (1, 0)), ((4, 8, 16), (16, 32), (None, 1))],
    ids=["rows", "depth", "columns"],
)
def test_a_grouped_product_has_the_operations_of_its_products(
    left: tuple[int, ...], right: tuple[int, ...], axes: tuple[int | None, ...], tmp_path: Path
) -> None:
    """One product per group: a part of the axis that is split, or one matrix."""
    inputs = [torch.ones(*shape).bfloat16() for shape in (left, right)]
    offsets = torch.tensor([8, 16, 24, 32], dtype=torch.int32)
    parts = [x if at is None else x.split(8, at) for x, at in zip(inputs, axes, strict=True)]
    found = recorded_flops(lambda: torch._grouped_mm(*inputs, offs=offsets), tmp_path / "trace.json")
    assert found == counted_flops(lambda: [torch.mm(x, y) for x, y in zip(*parts, strict=True)]) > 0


def test_a_packed_weight_has_the_operations_of_a_linear_layer(tmp_path: Path) -> None:
    x, weight = torch.ones(8, 32).bfloat16(), torch.ones(16, 32, dtype=torch.int8)
    scales = torch.ones(16).bfloat16()
    found = recorded_flops(lambda: torch._weight_int8pack_mm(x, weight, scales), tmp_path / "trace.json")
    assert found == 2 * 8 * 32 * 16
