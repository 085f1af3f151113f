from __future__ import annotations

import copy
import threading
from types import MappingProxyType

import pytest
import torch
from torch import nn

import fxcore
from fxcore.tracing import module_hooks
from fxcore.tracing.module_hooks import InterceptedDict, intercepted_modules, intercepted_state
from fxcore.tracing.patching import Patcher


class Louder(InterceptedDict):
    def __getitem__(self, name):
        value = dict.__getitem__(self, name)
        return f"{name} was read" if isinstance(value, torch.Tensor) else value


def test_readers_get_the_answer_and_afterwards_the_value_again():
    module = nn.BatchNorm1d(2)
    weight, mean = module.weight, module.running_mean

    with intercepted_state([module], Louder):
        assert (module.weight, module.running_mean) == ("weight was read", "running_mean was read")
        assert dict(module.named_parameters())["weight"] is weight

    assert module.weight is weight
    assert module.running_mean is mean
    assert type(module._parameters) is dict


def test_what_the_traced_code_changes_stays_changed():
    module = nn.BatchNorm1d(2)
    added = nn.Parameter(torch.ones(1))
    parameters = module._parameters

    with intercepted_state([module], Louder):
        module.added = added
        del module.bias
        module.running_mean = torch.ones(2)

    assert module._parameters is parameters
    assert list(parameters) == ["weight", "added"]
    assert torch.equal(module.running_mean, torch.ones(2))


def test_the_replaced_parameters_and_buffers_are_listed():
    module = nn.BatchNorm1d(2)

    with intercepted_state([module], Louder) as replaced:
        module.running_mean = torch.ones(2)
        module.register_buffer("late", torch.ones(2))
        assert replaced == []

    assert replaced == [(module._buffers, "running_mean")]


def test_a_proxy_does_not_stay_in_a_module():
    module = nn.BatchNorm1d(2)
    mean, proxy = module.running_mean, fxcore.Proxy(fxcore.Graph().placeholder("x"))

    with intercepted_state([module], Louder):
        module._buffers["running_mean"] = module._buffers["late"] = proxy

    assert module.running_mean is mean
    assert list(module._buffers) == ["running_mean", "running_var", "num_batches_tracked"]


def test_tables_that_are_empty_or_no_dicts_stay_as_they_are():
    linear, other = nn.Linear(2, 2), nn.Linear(2, 2)
    view = other.__dict__["_buffers"] = MappingProxyType({"table": torch.ones(1)})

    with intercepted_state([linear, other], Louder):
        assert type(linear._buffers) is dict
        assert other.__dict__["_buffers"] is view
        assert linear.weight == other.weight == "weight was read"


def hearing(heard):
    """Return the functions of a trace that notes calls and reads."""

    def on_call(module, run, args, kwargs):
        heard.append(type(module).__name__)
        return run(module, *args, **kwargs)

    return on_call, lambda name, value: heard.append(name) or value


class Compiled(nn.Module):
    """Runs code that torch.compile made of it."""

    def __init__(self):
        super().__init__()
        self._compiled_call_impl = lambda x: x + 1
        self.linear = nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["weight"]),
        ({"every_call": True}, ["Compiled", "weight"]),
        ({"every_attribute": True}, ["linear", "weight"]),
    ],
)
def test_a_trace_hears_of_every_call_and_of_every_attribute_if_it_asks(options, expected):
    model, heard = Compiled(), []

    with Patcher() as patcher:
        settings = {"every_attribute": False, "every_call": False, **options}
        with intercepted_modules(*hearing(heard), patcher, model.modules(), **settings):
            assert model(1) == 2
            assert model.linear.weight is not None

    assert heard == expected


def test_the_innermost_trace_hears_of_a_read():
    module, outer, inner = nn.Linear(2, 2), [], []
    settings = {"every_attribute": False, "every_call": False}

    with Patcher() as patcher, intercepted_modules(*hearing(outer), patcher, [module], **settings):
        with Patcher() as patcher, intercepted_modules(*hearing(inner), patcher, [module], **settings):
            assert module.weight is not None
        assert module.bias is not None

    assert (outer, inner) == (["bias"], ["weight"])


def test_a_buffer_that_the_forward_registers_keeps_its_persistence():
    class Registers(nn.Module):
        def forward(self, x):
            self.register_buffer("late", torch.ones(2), False)
            return x + self.late

    model = Registers()
    fxcore.symbolic_trace(model)

    assert list(model.state_dict()) == []
    assert list(dict(model.named_buffers())) == ["late"]


def test_no_thread_begins_suspended():
    thread, outcome = in_thread(module_hooks.is_suspended)
    thread.join()

    assert outcome == [False]


def test_two_traces_of_one_module_share_the_dict_until_the_last_has_left():
    module = nn.Linear(2, 2)
    first, second = intercepted_state([module], Louder), intercepted_state([module], Louder)

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert module.weight == "weight was read"
    second.__exit__(None, None, None)

    assert isinstance(module.weight, nn.Parameter)


def test_an_error_restores_too():
    module = nn.Linear(2, 2)

    with pytest.raises(ZeroDivisionError), intercepted_state([module], Louder):
        raise ZeroDivisionError

    assert isinstance(module.weight, nn.Parameter)


def test_a_copy_made_meanwhile_is_an_ordinary_module():
    module = nn.Linear(2, 2)

    with intercepted_state([module], Louder):
        copied = copy.deepcopy(module)

    assert type(copied._parameters) is dict
    assert torch.equal(copied.weight, module.weight)


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.update(bias=None),
        lambda held: held.pop("bias"),
        lambda held: held.popitem(),
        lambda held: held.clear(),
        lambda held: held.setdefault("new", 1),
        lambda held: held.__setitem__("weight", 1),
        lambda held: held.__delitem__("weight"),
        lambda held: held.__ior__({"new": 2}),
    ],
)
def test_every_way_to_change_it_changes_the_original(change):
    module = nn.Linear(2, 2)
    expected = dict(module._parameters)
    change(expected)

    with intercepted_state([module], Louder):
        change(module._parameters)

    assert module._parameters == expected
    assert type(module._parameters) is dict


class Waiting(nn.Module):
    """Lets another thread work in the middle of its forward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.reached, self.go_on = threading.Event(), threading.Event()

    def forward(self, x):
        y = self.linear(x)
        self.reached.set()
        assert self.go_on.wait(10)
        return y * self.scale


def in_thread(function):
    outcome = []

    def run():
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_a_module_that_runs_in_another_thread_is_not_traced():
    tracing, other = Waiting(), nn.Sequential(nn.Linear(2, 2))
    expected = other(torch.ones(2))
    thread, outcome = in_thread(lambda: fxcore.symbolic_trace(tracing))
    assert tracing.reached.wait(10)

    meanwhile = other(torch.ones(2))
    weight = other[0].weight
    tracing.go_on.set()
    thread.join()

    assert torch.equal(meanwhile, expected)
    assert isinstance(weight, nn.Parameter)
    assert [node.name for node in outcome[0].graph.nodes] == ["x", "linear", "scale", "mul", "output"]


def test_a_compiled_module_runs_in_another_thread_while_one_is_traced():
    tracing, compiled = Waiting(), torch.compile(nn.Linear(2, 2), backend="eager")
    expected = compiled(torch.ones(2))
    thread, _ = in_thread(lambda: fxcore.symbolic_trace(tracing))
    assert tracing.reached.wait(10)

    meanwhile = compiled(torch.ones(2))
    tracing.go_on.set()
    thread.join()

    assert torch.equal(meanwhile, expected)


def test_two_traces_in_two_threads_are_right_and_leave_nothing_behind():
    call, getattr_ = nn.Module.__call__, nn.Module.__getattr__
    first, second = Waiting(), Waiting()
    started = [in_thread(lambda model=model: str(fxcore.symbolic_trace(model).graph)) for model in (first, second)]
    assert first.reached.wait(10)
    assert second.reached.wait(10)

    first.go_on.set()
    started[0][0].join()
    second.go_on.set()
    started[1][0].join()

    assert started[0][1] == started[1][1]
    assert "%scale" in started[0][1][0]
    assert (nn.Module.__call__, nn.Module.__getattr__) == (call, getattr_)


def test_a_failed_trace_leaves_nothing_behind():
    call, getattr_ = nn.Module.__call__, nn.Module.__getattr__

    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("broken")

    with pytest.raises(KeyError):
        fxcore.symbolic_trace(Broken())

    assert (nn.Module.__call__, nn.Module.__getattr__) == (call, getattr_)
    assert not module_hooks.is_active()


def test_a_trace_inside_a_trace_is_its_own():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            inner = fxcore.symbolic_trace(nn.Sequential(self.linear))
            return self.linear(x) + len(inner.graph.nodes)

    traced = fxcore.symbolic_trace(Outer())

    assert [str(node) for node in traced.graph.nodes] == ["x", "linear", "add", "output"]
    assert traced.graph.find_nodes(op="output")[0].args[0].args[1] == 3


def test_a_suspension_inside_a_suspension_keeps_modules_as_usual():
    seen = []

    class Net(nn.Module):
        def forward(self, x):
            with module_hooks.suspended():
                seen.append(module_hooks.is_suspended())
                with module_hooks.suspended():
                    seen.append(module_hooks.is_suspended())
                seen.append(module_hooks.is_suspended())
            seen.append(module_hooks.is_suspended())
            return x

    fxcore.symbolic_trace(Net())
    with module_hooks.suspended():
        seen.append(module_hooks.is_suspended())

    assert seen == [True, True, True, False, False]
