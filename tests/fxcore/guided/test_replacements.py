"""Functions that a trace with an example replaces: one table, put in place and taken back in one place."""

from __future__ import annotations

import subprocess
import sys
import threading
import types

import pytest
import torch
import torch._dynamo  # its import replaces torch.manual_seed
from torch import nn

import fxcore
from fxcore.guided import replacements

X = torch.rand(3, 4)


def present():
    """Return the values at all replaced names of imported modules and of classes."""
    return {
        (owner, name): vars(sys.modules.get(owner, owner)).get(name)
        for owner, name, *_ in replacements.table()
        if owner in sys.modules or isinstance(owner, type)
    }


def changed_since(before):
    now = present()
    return {place: now[place] for place, value in before.items() if value is not now[place]}


def failing(x):
    torch.rand(3)
    raise ZeroDivisionError


def test_indexing_of_tensors_is_never_replaced():
    # A class that sets __getitem__ becomes a sequence to C code, also after its removal.
    names = {name for owner, name, *_ in replacements.table() if owner is torch.Tensor}

    assert "view" in names
    assert names.isdisjoint({"__getitem__", "__setitem__", "__len__", "__iter__"})
    fxcore.symbolic_trace(lambda x: x[0] + torch.rand(4), example_inputs=(X,))
    assert torch.tensor([X.sum()]).shape == (1,)


def test_a_trace_takes_all_replacements_back():
    before = present()
    places = {("torch", "rand"), (torch.no_grad, "__enter__"), ("torch.utils.checkpoint", "checkpoint")}

    def forward(x):
        assert places <= changed_since(before).keys()
        return x + torch.rand(4)

    fxcore.symbolic_trace(forward, example_inputs=(X,))

    assert changed_since(before) == {}


def test_a_trace_that_fails_takes_all_replacements_back():
    before = present()

    with pytest.raises(ZeroDivisionError):
        fxcore.symbolic_trace(failing, example_inputs=(X,))

    assert changed_since(before) == {}


def test_a_trace_inside_a_trace_takes_back_its_own_replacements_only():
    before = present()

    def forward(x):
        inner = fxcore.symbolic_trace(lambda y: y + torch.rand(4), example_inputs=(X,))
        assert "torch.rand" in inner.code
        return x + torch.rand(4)

    graph_module = fxcore.symbolic_trace(forward, example_inputs=(X,))

    assert "rand" in graph_module.code
    assert changed_since(before) == {}


def test_traces_in_two_threads_share_the_replacements():
    before = present()
    both = threading.Barrier(2)
    codes = []

    def forward(x):
        both.wait(30)
        drawn = torch.rand(4)
        both.wait(30)
        return x + drawn

    def trace():
        codes.append(fxcore.symbolic_trace(forward, example_inputs=(X,)).code)

    threads = [threading.Thread(target=trace) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(codes) == 2
    assert all("torch.rand" in code for code in codes)
    assert changed_since(before) == {}


def test_a_function_that_another_module_imported_by_name_is_recorded():
    other = types.ModuleType("of_the_user")
    exec("from torch import tensor\ndef scaled(x, size):\n    return x * tensor(size)\n", vars(other))
    scaled = other.scaled

    graph_module = fxcore.symbolic_trace(lambda x: scaled(x, x.shape[0]), example_inputs=(X,))

    assert torch.equal(graph_module(torch.ones(5, 4)), torch.full((5, 4), 5.0))
    assert other.tensor is torch.tensor


def test_a_function_that_the_module_of_a_layer_made_in_forward_imported_by_name_is_recorded():
    other = types.ModuleType("of_the_user")
    source = "from torch import nn, tensor\nclass Scaled(nn.Module):\n    def forward(self, x):\n"
    exec(source + "        return x * tensor(x.shape[0])", vars(other))
    kinds = [other.Scaled]

    class Makes(nn.Module):
        def forward(self, x):
            return kinds[0]()(x)

    graph_module = fxcore.symbolic_trace(Makes(), example_inputs=(X,))

    assert torch.equal(graph_module(torch.ones(5, 4)), torch.full((5, 4), 5.0))


@pytest.mark.slow
def test_a_default_device_still_concerns_torchs_own_functions_after_a_trace():
    program = (
        "import torch, fxcore\n"
        "def add(x):\n"
        "    with torch.device('cpu'):\n"
        "        return x + torch.ones(3)\n"
        "fxcore.symbolic_trace(add, example_inputs=torch.rand(3))\n"
        "with torch.device('meta'):\n"
        "    print(torch.empty(2).device, torch.ones(2).device)"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["meta", "meta"]
