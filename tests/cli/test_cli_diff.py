"""``torch-trace diff``: exit codes, gates, the JSON that other programs read, and text for people."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin import cli
from tb_plugin.cli.gates import judge, parse_gate
from tb_plugin.errors import BadRequest
from tests.builders import TraceBuilder, kernel, trace
from tests.conftest import SAMPLES

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def steps(loading: int, dur: int) -> TraceBuilder:
    builder = trace().device(0)
    for number in range(2):
        at = 1000 * number
        builder.step(number, at, loading + 10).annotation(LOADER, at, loading)
        builder.op("aten::mm", at + loading, 10).launches(kernel("gemm[x]", dur, at=at + loading + 10))
    return builder


def write_pair(folder):
    files = {"base": steps(100, 20), "exp": steps(40, 50)}
    for name, builder in files.items():
        (folder / name).mkdir()
        (folder / name / "w.1.pt.trace.json").write_bytes(builder.bytes())
    return folder / "base", folder / "exp"


@pytest.fixture
def pair(tmp_path):
    return write_pair(tmp_path)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The same two for tests about gates alone, with a cache that remembers their numbers."""
    folder = tmp_path_factory.mktemp("known")
    return folder / "cache", write_pair(folder)


@pytest.fixture
def known_pair(known, monkeypatch):
    cache, pair = known
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(cache))
    return pair


def run(*arguments):
    return cli.main(["diff", *map(str, arguments)])


def document(capsys, *arguments):
    code = run(*arguments, "--format", "json")
    return code, json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_json(capsys, pair):
    code, found = document(capsys, *pair)
    assert code == 0
    assert set(found) == {
        "schema_version", "baseline", "experiment", "per", "waterfall", "findings", "facts", "call_tree",
        "tables", "gates",
    }  # fmt: skip
    assert found["schema_version"] == 4 and found["per"] == "step"
    path = str(pair[0] / "w.1.pt.trace.json")
    named = {key: found["baseline"][key] for key in found["baseline"] if key not in ("findings", "data_notices")}
    assert named == {"run": "", "worker": "w", "span": "1", "path": path, "steps": "", "capture": None, "dismissed": []}
    # 100 loading, 10 computing, then 20 on the device; 40, 10 and 50.
    assert found["waterfall"] == {
        "baseline_ns": 130_000,
        "experiment_ns": 100_000,
        "delta_ns": -30_000,
        "interval": None,
        "parts": {"gemm": 30_000, "idle_input": -60_000, "idle_launch_latency": 0},
        "intervals": {"gemm": None, "idle_input": None, "idle_launch_latency": None},
    }
    step = found["facts"]["overview.step_time_mean_ns"]
    assert step == {"baseline": 130_000, "experiment": 100_000, "delta": -30_000}
    assert set(found["tables"]) == {
        "operators",
        "operators_by_shape",
        "kernels",
        "modules",
        "runtime_calls",
        "settings",
    }
    (mm,) = found["tables"]["operators"]
    assert (mm["name"], mm["presence"], mm["base_calls"], mm["delta_device_self_ns"]) == ("aten::mm", "both", 1, 30_000)
    for value, name in (("host_ns", "Data loading"), ("device_ns", "Forward")):
        top = [node for node in found["call_tree"][value] if node["parent"] == -1]
        assert top[0]["name"] == name
    assert found["gates"] == []


def test_steps_and_totals(capsys, pair):
    code, found = document(capsys, *pair, "--steps", "0", "--base-steps", "1", "--per", "total")
    assert code == 0 and found["waterfall"]["baseline_ns"] == 130_000
    code, found = document(capsys, *pair, "--per", "total")
    assert code == 0 and found["waterfall"]["baseline_ns"] == 260_000


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("overview.idle.input_mean_ns<-59us", 1),  # 100 us before, 40 after
        ("overview.idle.input_mean_ns<-60us", 0),
        ("findings.data_loading.saving_high_ns<-50us", 1),
        ("findings.data_loading.saving_high_ns>0us", 0),
        ("step_time>5%", 0),
        ("step_time>-30%", 1),  # -23 % is above that
        ("step_time<-20%", 1),
        ("step_time<-25%", 0),
        ("overview.step_time_mean_ns<-29us", 1),
        ("overview.step_time_mean_ns < -30000 ns", 0),  # not below: equal
        ("device.0.busy_ns>0.05ms", 1),
        ("device.0.busy_ns>60us", 0),
        ("operators.calls>0%", 0),
    ],
)
def test_gates(known_pair, gate, code):
    assert run(*known_pair, "--fail-on", gate) == code


def test_one_failed_gate_is_enough(capsys, known_pair):
    code, found = document(capsys, *known_pair, "--fail-on", "step_time>5%", "--fail-on", "device.0.busy_ns>1us")
    assert code == 1
    assert [(gate["fact"], gate["passed"]) for gate in found["gates"]] == [
        ("overview.step_time_mean_ns", True),
        ("device.0.busy_ns", False),
    ]
    assert found["gates"][1] == {
        "gate": "device.0.busy_ns>1us",
        "fact": "device.0.busy_ns",
        "baseline": 40_000,
        "experiment": 100_000,
        "change": 60_000,
        "passed": False,
        "interval": None,
        "significant": None,
    }


def write_steps(folder, name, lengths):
    builder = trace()
    for number, length in enumerate(lengths):
        builder.step(number, 1000 * number, length).op("aten::mm", 1000 * number, length)
    (folder / name).mkdir()
    (folder / name / "w.1.pt.trace.json").write_bytes(builder.bytes())
    return folder / name


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Steps of 100 us on average, of 103 us within noise, and of 120 us."""
    folder = tmp_path_factory.mktemp("noisy")
    lengths = {"base": [95, 105, 98, 102, 100], "noise": [99, 109, 103, 97, 107], "slower": [115, 125, 118, 122, 120]}
    return folder / "cache", {name: write_steps(folder, name, each) for name, each in lengths.items()}


@pytest.mark.parametrize(
    ("exp", "gate", "options", "code"),
    [
        ("noise", "step_time>1%", [], 0),
        ("noise", "step_time>1%", ["--strict"], 1),
        ("noise", "step_time>1%", ["--per", "total"], 0),
        ("noise", "step_time>1%", ["--steps", "0,1"], 1),  # noise of 2 steps is unknown
        ("noise", "overview.breakdown.cpu_mean_ns>1us", [], 0),
        ("noise", "step_time>-5%", [], 1),  # no change at all would fail as well
        ("slower", "step_time>5%", [], 1),
        ("slower", "step_time>30%", [], 0),
    ],
)
def test_changes_within_noise_fail_no_gate(noisy, monkeypatch, exp, gate, options, code):
    cache, folders = noisy
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(cache))
    assert run(folders["base"], folders[exp], "--fail-on", gate, *options) == code


def test_reports_carry_intervals(capsys, noisy, monkeypatch):
    cache, folders = noisy
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(cache))
    pair = (folders["base"], folders["noise"], "--fail-on", "step_time>1%")
    code, found = document(capsys, *pair)
    interval = found["gates"][0]["interval"]
    assert code == 0 and found["gates"][0]["significant"] is False and found["gates"][0]["passed"]
    assert interval["low"] < 0 < 3_000 < interval["high"] and found["waterfall"]["interval"] == interval
    assert found["waterfall"]["intervals"] == {"cpu": interval}
    assert run(*pair) == 0
    text = capsys.readouterr().out
    assert "The step time did not change significantly: 3.00 µs (95 % interval -" in text
    assert "within noise  passed" in text and ", noise" in text and "Noise is known only" not in text
    assert run(*pair, "--fail-on", "operators.calls>0%") == 0
    assert "Noise is known only for step times and their parts" in capsys.readouterr().out


@pytest.mark.parametrize(
    "gate",
    ["step_time", "step_time>5", "step_time>5s", "step_time>1MiB", ">5%", "no.such.fact>5%", "step_time>=5%",
     "operators.calls>5ns", "memory.cpu.peak_allocated_bytes>1KiB", "step_time>5%%", "step_time>1e3ns", "step_time>٥%"],
)  # fmt: skip
def test_gates_that_make_no_sense(capsys, known_pair, gate):
    assert run(*known_pair, "--fail-on", gate) == 2
    assert capsys.readouterr().out == ""


def test_a_fact_that_is_null_is_a_usage_error(tmp_path, pair):
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "w.1.pt.trace.json").write_bytes(trace().bytes())
    assert run(pair[0], tmp_path / "none", "--fail-on", "step_time>5%") == 2
    assert run(pair[0], tmp_path / "none") == 0


def test_exit_codes(capsys, tmp_path, pair):
    assert run(pair[0], tmp_path / "nowhere") == 3
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "w.1.pt.trace.json").write_text("no trace")
    assert run(tmp_path / "broken", pair[1]) == 3
    (tmp_path / "empty").mkdir()
    assert run(pair[0], tmp_path / "empty") == 3
    assert run(*pair, "--steps", "9") == 2
    assert run(*pair, "--run", "other") == 2
    with pytest.raises(SystemExit) as caught:
        cli.main(["diff", str(pair[0])])
    assert caught.value.code == 2
    assert capsys.readouterr().out == ""


def test_a_directory_of_several_needs_a_choice(capsys, pair):
    logs = pair[0].parent
    assert run(logs, pair[1]) == 2
    assert "The baseline has 2 runs. Choose one with --base-run: base, exp." in capsys.readouterr().err
    assert run(pair[0], logs) == 2
    assert "Choose one with --run: base, exp." in capsys.readouterr().err
    code, found = document(capsys, logs, logs, "--base-run", "base", "--run", "exp")
    assert code == 0 and found["waterfall"]["delta_ns"] == -30_000
    assert (found["baseline"]["run"], found["experiment"]["run"]) == ("base", "exp")


def test_a_file_against_itself(capsys, pair):
    file = pair[0] / "w.1.pt.trace.json"
    code, found = document(capsys, file, file, "--fail-on", "step_time>0%", "--fail-on", "step_time<0ns")
    assert code == 0
    assert set(found["waterfall"]["parts"].values()) == {0}
    assert all(value["delta"] in (0, None) for value in found["facts"].values())


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_for_people(capsys, known_pair, form):
    assert run(*known_pair, "--format", form, "--top", "3", "--fail-on", "step_time>5%") == 0
    text = capsys.readouterr().out.replace("\\", "")
    for part in (
        "Main change: Data loading, -60.0 µs per step.",
        "+30.0",
        "gemm[x]",
        "Call tree (4 of 4)",
        "passed",
    ):
        assert part in text, part


def test_samples(capsys):
    code, found = document(capsys, SAMPLES / "resnet_cpu", SAMPLES / "resnet_cpu", "--base-span", "1", "--span", "2")
    assert code == 0
    assert sum(found["waterfall"]["parts"].values()) == found["waterfall"]["delta_ns"]


def test_a_share_that_no_float_holds():
    verdict = judge(parse_gate("x_ns>5%"), {"x_ns": 5e-324}, {"x_ns": 1e15})
    assert (verdict.change, verdict.passed) == (None, False)


numbers = st.integers(-(2**60), 2**60) | st.floats(-1e15, 1e15)


@given(numbers, numbers, st.integers(-(10**6), 10**6))
def test_gates_compare_exactly(before, after, limit):
    change = Fraction(after) - Fraction(before)
    for sign, failed in ((">", change > limit * 1000), ("<", change < limit * 1000)):
        assert judge(parse_gate(f"x_ns{sign}{limit}us"), {"x_ns": before}, {"x_ns": after}).passed is not failed
    for sign in "<>":
        verdict = judge(parse_gate(f"x_ns{sign}{limit}%"), {"x_ns": before}, {"x_ns": after})
        if before:
            share = change / abs(Fraction(before)) * 100
            failed = share > limit if sign == ">" else share < limit
        elif change:  # from nothing to something: beyond every share
            failed = change > 0 if sign == ">" else change < 0
        else:
            failed = limit < 0 if sign == ">" else limit > 0
        assert verdict.passed is not failed


def test_a_gate_names_the_side_that_lacks_the_fact():
    gate = parse_gate("x_ns>1%")
    with pytest.raises(BadRequest, match="is not a fact of the experiment"):
        judge(gate, {"x_ns": 1}, {})
    with pytest.raises(BadRequest, match="is unknown of the baseline"):
        judge(gate, {"x_ns": None}, {"x_ns": 1})


def test_two_snapshots(capsys):
    folder = SAMPLES / "synthetic_memory"
    sides = folder / "fragmented.pickle.gz", folder / "leaking.pickle.gz"
    code, found = document(capsys, *sides, "--fail-on", "memory.cuda:0.peak_allocated_bytes>100%")
    assert code == 0 and found["waterfall"] is None and found["gates"][0]["passed"]
    assert set(found["tables"]) == {"snapshot_figures", "peak_stacks", "end_stacks"}
    peak = found["facts"]["memory.cuda:0.peak_allocated_bytes"]
    assert found["tables"]["snapshot_figures"][0]["delta_held_bytes"] == peak["delta"]
    assert [each["rule"] for each in found["experiment"]["findings"]] == ["snapshot_leak"]
    assert run(*sides) == 0
    assert "The peak changes by" in capsys.readouterr().out


def test_a_snapshot_is_not_compared_with_a_trace(capsys):
    trace = next((SAMPLES / "transformer_cpu").iterdir())
    assert run(SAMPLES / "synthetic_memory" / "leaking.pickle.gz", trace) == 2
    said = capsys.readouterr().err
    assert "The baseline is a memory snapshot, but the experiment is a trace" in said


NPU, GPU = SAMPLES / "synthetic_ascend", SAMPLES / "synthetic_gpu"


def test_an_npu_against_a_gpu(capsys, tmp_path, monkeypatch):
    """Kernels of other vendors are compared by class, and the report says so."""
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path))
    pair = (NPU, GPU, "--base-worker", "rank0")
    code, found = document(capsys, *pair, "--per", "total")
    assert code == 0
    tables = found["tables"]
    assert "gemm" in {row["class"] for row in tables["kernels_by_class"]}
    linear = next(row for row in tables["operators"] if row["name"] == "aten::linear")
    assert (linear["base_device_total_ns"], linear["exp_calls"]) == (1_585_410, 102)
    assert "other_makers" in {finding["rule"] for finding in found["findings"]}
    assert run(*pair, "--top", "3") == 0
    text = capsys.readouterr().out
    assert "Kernels by class" in text and "come from different vendors" in text
    assert "Kernels (" not in text, "each kernel is on one side only"
