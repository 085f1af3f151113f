from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError

WAYS = [
    lambda g: g,
    lambda g: g.forward,
    lambda g: fxcore.Interpreter(g).run,
    lambda g: g.check_guards,
    lambda g: fxcore.interop.to_torch(g),
    lambda g: pickle.loads(pickle.dumps(g)),
]


class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 2))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        try:
            y = self.product(x)
        except (ImportError, RuntimeError):
            y = x.sum()
        return y + 1

    def product(self, x):
        return x @ self.weight


def guards_of(function, *inputs):
    return [str(each) for each in fxcore.symbolic_trace(function, example_inputs=inputs).graph.guards]


@pytest.mark.parametrize("way", WAYS)
def test_an_error_that_the_traced_code_catches_is_a_refusal_that_changes_nothing(way):
    graph_module = fxcore.symbolic_trace(Projected(), example_inputs=torch.ones(3, 4))

    with pytest.raises(GuardError, match=r"matmul\(...\) raises no RuntimeError: it raises .* mat1 and"):
        way(graph_module)(torch.ones(3, 5))

    assert graph_module.calls == 0
    assert torch.equal(graph_module(torch.ones(2, 4)), torch.full((2, 2), 5.0))
    assert graph_module.calls == 1


def test_the_guard_names_the_line_of_the_call_and_the_code_stays():
    graph_module = fxcore.symbolic_trace(Projected(), example_inputs=torch.ones(3, 4))

    (guard,) = graph_module.graph.guards

    assert guard.source == "return x @ self.weight"
    assert not guard.is_assumed
    assert "try" not in graph_module.code
    assert graph_module.supports(torch.ones(3, 5)) is None


def test_an_error_of_another_class_stays_as_it_is():
    def shifted(x, y):
        try:
            return x + y
        except ZeroDivisionError:
            return x

    graph_module = fxcore.symbolic_trace(shifted, example_inputs=(torch.ones(3), torch.ones(3)))

    with pytest.raises(RuntimeError, match="size of tensor") as caught:
        graph_module(torch.ones(3), torch.ones(4))

    assert not isinstance(caught.value, GuardError)


def test_handlers_that_raise_again_and_errors_that_torch_does_not_raise_make_no_guard():
    def explained(x):
        try:
            return x * 2
        except RuntimeError as error:
            raise ValueError("too large") from error

    def imported(x):
        try:
            return x * 2
        except ImportError:
            return x

    def closed(x):
        try:
            return x * 2
        finally:
            print()

    assert [guards_of(each, torch.ones(3)) for each in (explained, imported, closed)] == [[], [], []]


def test_calls_behind_the_block_make_no_guard():
    def decided(x):
        try:
            y = x * 2
        except:  # noqa: E722 - the case of this test
            y = x
        with torch.no_grad():
            return y.exp()

    assert guards_of(decided, torch.ones(3)) == ["mul(...) raises no BaseException"]


WEIGHT = torch.ones(4, 2)


def in_an_inner_function(x):
    def product(x):
        try:
            return x @ WEIGHT
        except RuntimeError:
            return x.sum()

    return product(x)


def called_behind_the_block(x):
    try:

        def product(x):
            return x @ WEIGHT
    except RuntimeError:
        return x
    return product(x)


def with_a_text(x):
    text = """
a line without indentation
"""
    try:
        return x @ WEIGHT
    except (torch.linalg.LinAlgError, RuntimeError):
        return x.sum() * len(text)


without_source = {"WEIGHT": WEIGHT}
exec("def call(x):\n    try:\n        return x @ WEIGHT\n    except RuntimeError:\n        return x", without_source)

PLACES = {
    "in an inner function": (in_an_inner_function, ["matmul(...) raises no RuntimeError"]),
    "in an inner function that is called behind the block": (called_behind_the_block, []),
    "in a function with a text": (with_a_text, ["matmul(...) raises no LinAlgError or RuntimeError"]),
    "in a function without source": (without_source["call"], []),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_block_is_found_in_the_source_of_its_own_function(place):
    function, guards = PLACES[place]

    assert guards_of(function, torch.ones(3, 4)) == guards


def test_a_block_in_a_user_s_module_called_guards_counts(monkeypatch):
    monkeypatch.setattr(with_a_text, "__module__", "guards")

    assert guards_of(with_a_text, torch.ones(3, 4)) == ["matmul(...) raises no LinAlgError or RuntimeError"]


def test_each_line_of_the_last_statement_in_a_try_block_counts():
    def summed(x, y):
        try:
            return [
                1,
                x + y,
            ]
        except RuntimeError:
            return x

    assert guards_of(summed, torch.ones(3), torch.ones(3)) == ["add(...) raises no RuntimeError"]


def fails_in_the_second_line(x):
    try:
        y = x + 1
        z = y.view(-1, 2)
    except RuntimeError:
        return x
    return z


def raises_again(x):
    try:
        z = x.view(-1, 2)
    except RuntimeError:
        note = 1  # noqa: F841 - a handler of two statements
        raise
    return z


def raises_one_error_again(x):
    try:
        z = x.view(-1, 2)
    except RuntimeError:
        raise
    except ValueError:
        return x
    return z


def calls_beside_the_block(x):
    y = x.view(-1, 2)
    try:
        z = x + 1
    except RuntimeError:
        return x
    return z.sum() + y.sum()


def call_of_several_lines(x):
    try:
        z = torch.reshape(
            x,
            (-1, 2),
        )
    except (RuntimeError, KeyError):
        return x
    return z


@pytest.mark.parametrize(
    ("function", "guards"),
    [
        (fails_in_the_second_line, ["add(...) raises no RuntimeError", "view(...) raises no RuntimeError"]),
        (raises_again, []),
        (raises_one_error_again, ["view(...) raises no ValueError"]),
        (calls_beside_the_block, ["add(...) raises no RuntimeError"]),
        (call_of_several_lines, ["reshape(...) raises no RuntimeError"]),
    ],
)
def test_the_calls_of_a_try_block_have_guards_for_the_errors_that_end_there(function, guards):
    graph_module = fxcore.symbolic_trace(function, example_inputs=torch.ones(3, 4))

    assert [str(guard) for guard in graph_module.graph.guards] == guards
