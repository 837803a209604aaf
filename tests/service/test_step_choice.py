"""Step selections."""

from __future__ import annotations

import pytest

from tb_plugin.errors import BadRequest
from tb_plugin.payloads import StepInfo
from tb_plugin.service.answers.step_selection import chosen_steps, window_of

STEPS = [StepInfo(label, i * 10, i * 10 + 10) for i, label in enumerate(["5", "7", "8", "9", "10", "warm-up"])]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", None),
        ("  ", None),
        ("5,7-9", ("5", "7", "8", "9")),
        ("9,5", ("5", "9")),
        ("6-8", ("7", "8")),
        ("1-99999999999", ("5", "7", "8", "9", "10")),
        ("warm-up", ("warm-up",)),
        (" 5 , 5 ", ("5",)),
        ("007-0009", ("7", "8", "9")),
        ("1-" + "9" * 5000, ("5", "7", "8", "9", "10")),
    ],
)
def test_chosen(text, labels):
    assert chosen_steps(text, STEPS) == labels


@pytest.mark.parametrize(
    "text", ["6", "x", "9-7", ",", "5-", "-5", "1.5", "9" * 5000, "9" * 5000 + "-" + "9" * 6000, "٥-٩"]
)
def test_refused(text):
    with pytest.raises(BadRequest):
        chosen_steps(text, STEPS)


def test_a_mode_names_its_steps_unless_it_is_a_label():
    served = [StepInfo(str(i), 0, 1, mode=mode) for i, mode in enumerate(["idle", "decode", "prefill", "decode"], 1)]
    assert chosen_steps("decode", served) == ("2", "4")
    assert chosen_steps("prefill, 1-2", served) == ("1", "2", "3")
    assert chosen_steps("decode", [*served, StepInfo("decode", 5, 6)]) == ("decode",)
    with pytest.raises(BadRequest) as refused:
        chosen_steps("mixed", served)
    assert "the steps 1, 2, 3, 4. You can also specify a mode: idle, decode, prefill." in str(refused.value)


def test_of_many_steps_the_refusal_names_the_first_and_the_last():
    many = [StepInfo(str(i), i, i + 1) for i in range(1, 1001)]
    with pytest.raises(BadRequest, match="1,000 steps, 1 to 1000"):
        chosen_steps("x", many)


def test_window():
    assert window_of("", STEPS, None, None) == (None, None)
    assert window_of("7-8", STEPS, None, None) == (10, 30)
    assert window_of("7-8", STEPS, 15, 100) == (15, 30)
    with pytest.raises(BadRequest):
        window_of("7", STEPS, 25, None)


def test_a_label_of_thousands_of_digits():
    long = "1" * 5000
    assert chosen_steps("5-9", [*STEPS, StepInfo(long, 60, 70)]) == ("5", "7", "8", "9")
    assert chosen_steps("10-" + "2" * 5000, [*STEPS, StepInfo(long, 60, 70)]) == ("10", long)
