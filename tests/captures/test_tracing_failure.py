"""A failed trace is told with the line that the reader can change."""

from __future__ import annotations

import importlib
import os

import pytest
import torch
from torch import nn

import fxcore
import pytest_fxgraph
from fxcore.errors import TraceError
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.captures.tracing_failure import (
    describe_failure,
    failure_of_model,
    is_users_file,
    name_of,
    refuse_untraceable,
    short_path,
)
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.errors import CaptureError, DocumentError


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A module of the user's in a file that defines no model."""
    (tmp_path / "library_of_the_user.py").write_text("def fail(x):\n    raise KeyError('x')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("library_of_the_user")


class Net(nn.Module):
    def __init__(self, fail):
        super().__init__()
        self.fail = fail

    def forward(self, x):
        return self.fail(x)


def failure_of(model, run):
    with pytest.raises(KeyError) as caught:
        run(1)
    return describe_failure(model, caught.value)


def test_the_line_is_of_the_file_that_defines_the_model(library):
    model = Net(library.fail)

    first, line = failure_of(model, model).split("\n")

    assert first == "cannot trace Net: KeyError: 'x'"
    assert "test_tracing_failure.py:" in line
    assert line.endswith(", in forward: return self.fail(x)")


def test_the_line_of_a_function_is_of_its_own_file(library):
    def calls_the_library(x):
        return library.fail(x)

    assert failure_of(calls_the_library, calls_the_library).endswith("in calls_the_library: return library.fail(x)")


def test_a_model_without_a_file_is_told_with_the_innermost_line_of_the_users(library):
    nowhere = type("Nowhere", (Net,), {"__module__": "not_imported"})(library.fail)

    lines = failure_of(nowhere, nowhere).split("\n")

    assert lines[0] == "cannot trace Nowhere: KeyError: 'x'"
    assert lines[1].endswith("library_of_the_user.py:2, in fail: raise KeyError('x')")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("wrong"), "ValueError: wrong"),
        (ValueError(), "ValueError"),
        (TraceError("said by fxcore"), "said by fxcore"),
        (TraceError(), "TraceError"),
    ],
)
def test_errors_of_fxcore_speak_for_themselves_and_others_with_their_class(error, reason):
    assert describe_failure(len, error) == f"cannot trace len: {reason}"


def test_a_model_is_named_by_its_class_and_a_function_by_its_qualified_name():
    assert (name_of(nn.ReLU()), name_of(Net.forward), name_of(3)) == ("ReLU", "Net.forward", "int")


# Models whose Python code is not there, or not yet what it will be: each has its own words.


def model():
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU())


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(3)

    def forward(self, x):
        return self.layer(x)


class ReadsLazily(Lazy):
    def forward(self, x):
        return x @ self.layer.weight.t()


@pytest.mark.parametrize("script", [torch.jit.script, lambda each: torch.jit.trace(each, torch.ones(1, 2))])
def test_a_scripted_model_is_refused(script):
    with pytest.raises(CaptureError, match=r"cannot trace Sequential: it is scripted, so that its Python code is gone"):
        to_graph_module(script(model()))


def test_a_compiled_model_is_refused():
    with pytest.raises(CaptureError, match=r"cannot trace Sequential: torch.compile compiled it.* model._orig_mod"):
        trace(torch.compile(model()))


def test_a_compiled_function_is_refused():
    def function(x):
        return x + 1

    with pytest.raises(
        CaptureError, match=r"function: torch.compile compiled it.* the function that torch.compile was"
    ):
        trace(torch.compile(function))


def test_a_model_with_a_compiled_part_is_refused_with_its_path():
    with pytest.raises(CaptureError, match=r"its module '0' was compiled by torch.compile; put the one from before in"):
        trace(nn.Sequential(torch.compile(model())))


def test_a_lazy_module_before_its_first_call_is_told_with_its_path():
    with pytest.raises(
        CaptureError, match=r"its module 'layer', a LazyLinear, is lazy and has no parameters before its"
    ):
        trace(Lazy(), example_inputs=torch.ones(1, 2))
    with pytest.raises(DocumentError, match=r"'layer.weight' of torch.nn.LazyLinear is not initialized yet"):
        build_document(trace(Lazy()))


def test_a_lazy_module_after_its_first_call_is_traced():
    lazy = Lazy()
    lazy(torch.ones(1, 2))

    assert build_document(trace(lazy, example_inputs=torch.ones(1, 2))).nodes[-1].value == "float32[1, 3]"


def test_a_scripted_function_is_refused_by_its_name():
    with pytest.raises(CaptureError, match=r"cannot trace doubled: it is scripted"):
        refuse_untraceable(torch.jit.script(doubled))


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_a_part_with_a_name_of_the_compiler_is_no_compiled_model():
    wrapper = nn.Module()
    wrapper._orig_mod = nn.ReLU()

    refuse_untraceable(wrapper)


class Refusing(nn.Module):
    """Raises what it is given, after a write into its parameter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x, y, *, error=None):
        with torch.no_grad():
            self.weight.add_(1)
        if error is not None:
            raise error
        return x + y


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, None),
        (ValueError("no such row"), "ValueError: no such row"),
        (TypeError("no such dtype"), "TypeError: no such dtype"),
        (TypeError("unexpected argument"), None),  # perhaps the model takes other arguments
    ],
)
def test_a_model_that_fails_itself_is_told_and_left_as_it_was(error, words):
    model, x = Refusing(), torch.zeros(2)

    found = failure_of_model(model, {"example_inputs": (x, x), "example_kwargs": {"error": error}})

    assert (found is None) if words is None else found.startswith(words)
    assert torch.equal(model.weight, torch.ones(2))
    assert failure_of_model(model, {"example_inputs": (x, x), "example_kwargs": None}) is None
    assert failure_of_model(model, {"example_inputs": (x,), "example_kwargs": None}) is None


@pytest.mark.parametrize("count", [1, 2])
def test_all_obstacles_are_listed_if_there_are_several(count):
    def branches(x):
        if x.sum() > 0:
            x = x + 1
        if count > 1 and x.max() > 3:
            x = x + 2
        return x

    told = describe_failure(
        branches, TraceError("stopped"), {"example_inputs": (torch.ones(2),), "example_kwargs": None}
    )

    assert told.startswith("cannot trace test_all_obstacles_are_listed_if_there_are_several.<locals>.branches: stopped")
    assert ("\nall 2 places that stand in the way:\n" in told) is (count == 2)


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        (__file__, True),
        ("/project/model.py", True),
        ("<string>", False),
        (torch.__file__, False),
        (fxcore.__file__, False),
        (pytest_fxgraph.__file__, False),
        (os.__file__, False),
        (os.path.join(os.path.dirname(os.__file__), "site-packages", "models", "net.py"), True),
    ],
)
def test_files_of_torch_python_and_these_packages_are_not_the_users(file, is_users):
    assert is_users_file(file) is is_users


def test_a_path_below_the_working_directory_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert short_path(str(tmp_path / "models" / "net.py")) == os.path.join("models", "net.py")
    assert short_path("net.py") == "net.py"
    assert short_path(f"{tmp_path}-other/net.py") == f"{tmp_path}-other/net.py"
