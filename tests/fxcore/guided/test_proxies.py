"""A proxy answers as its value does, and an answer becomes a guard only where the trace relies on it."""

from __future__ import annotations

import builtins
import copy
import warnings

import pytest
import torch

import fxcore
from fxcore.errors import GuardError, TraceError
from fxcore.guided.proxies import class_of_proxies

X = torch.rand(3, 4)


def in_reverse(x):
    first, second = reversed(x.shape)
    return x.reshape(first, second)


def last_sizes(x):
    height, width = x.shape[-2:]
    return x.reshape(width, height)


def first_sizes(x):
    height, width = x.size()[:2]
    return x.reshape(width, height)


def middle_sizes(x):
    (width,) = x.shape[1:2]
    return x.reshape(width, -1)


def sizes_of_a_part(x):
    (width,) = x.shape[-2:][1:2]
    return x.reshape(width, -1)


def all_but_the_first(x):
    (width,) = x.shape[1:]
    return x.reshape(width, -1)


def all_but_the_last(x):
    (height,) = x.shape[:-1]
    return x.reshape(-1, height)


def from_the_end(x):
    (height,) = x.shape[-2:1]
    return x.reshape(-1, height)


def every_second(x):
    (height,) = x.shape[::2]
    return x.reshape(-1, height)


def sizes_of_a_result(x):
    height, width = x.reshape(4, 3).shape[0:]
    return x.reshape(height, width)


def quotient_and_rest(x):
    quotient, rest = divmod(x.shape[0], 2)
    return x * quotient + rest


def warned(x):
    warnings.warn(f"got {float(x.shape[0]):.1f}", stacklevel=1)
    return x * 2


def with_a_size_of_four(x):
    return x * 2 if 4 in x.shape else x


def of_a_turned_array(x):
    return x * int(x.numpy().T.shape[0])


def asked_for_memory_of_cuda(x):
    return x * 2 if hasattr(x, "__cuda_array_interface__") else x * 3


@pytest.mark.parametrize(
    ("function", "guards"),
    [
        (in_reverse, ["len(x.shape) == 2"]),
        (last_sizes, []),
        (first_sizes, []),
        (middle_sizes, []),
        (sizes_of_a_part, []),
        (all_but_the_first, ["len(x.shape[1:]) == 1"]),
        (all_but_the_last, ["len(x.shape[:-1]) == 1"]),
        (from_the_end, ["len(x.shape[-2:1]) == 1"]),
        (every_second, ["len(x.shape[::2]) == 1"]),
        (sizes_of_a_result, []),
        (quotient_and_rest, []),
        (warned, []),
        (with_a_size_of_four, ["len(x.shape) == 2", "x.shape[0] != 4", "x.shape[1] == 4"]),
        (of_a_turned_array, ["x.numpy().T.shape[0] == 4"]),
        (asked_for_memory_of_cuda, ["not hasattr(x, '__cuda_array_interface__')"]),
    ],
)
@pytest.mark.filterwarnings("ignore:got 3.0")
def test_an_answer_is_a_guard_where_another_input_gets_another_graph(function, guards):
    traced = fxcore.symbolic_trace(function, example_inputs=(X,))

    assert [str(guard) for guard in traced.graph.guards] == guards
    assert torch.equal(traced(X), function(X))


def test_a_size_in_an_array_is_a_guard():
    numpy = pytest.importorskip("numpy")
    traced = fxcore.symbolic_trace(lambda x: x * float(numpy.float32(x.shape[0])), example_inputs=(X,))

    assert [str(guard) for guard in traced.graph.guards] == ["x.shape[0] == 3"]
    assert torch.equal(traced(X), X * 3)


def test_a_size_and_a_number_are_copied_as_they_are_and_a_container_by_a_node():
    def program(x, options, scale):
        sizes = copy.deepcopy(x.shape)
        return copy.copy(options)["x"] * copy.copy(scale) * copy.copy(sizes)[0]

    traced = fxcore.symbolic_trace(program, example_inputs=(X, {"x": X}, 2))

    assert [node.target for node in traced.graph.nodes if "copy" in node.name] == [copy.copy]
    assert torch.equal(traced(X, {"x": X}, 3), program(X, {"x": X}, 3))


@pytest.mark.parametrize(
    ("condition", "trace_asserts", "guards"),
    [("x.sum() > -1", False, 0), ("x.sum() > -1", True, 0), ("x.dim() == 2", False, 1), ("x.dim() == 2", True, 0)],
)
def test_an_assertion_is_recorded_on_data_and_by_a_tracer_that_traces_assertions(condition, trace_asserts, guards):
    tracer = fxcore.Tracer()
    tracer.trace_asserts = trace_asserts
    names = {}
    exec(f"def checked(x):\n    assert {condition}\n    return x", names)  # pytest writes other code for `assert`
    graph = tracer.trace(names["checked"], example_inputs=(X,))
    traced = fxcore.GraphModule(torch.nn.Module(), graph)

    assert [str(guard) for guard in graph.guards].count(condition) == guards
    assert len(graph.find_nodes(op="call_function", target=torch._assert)) == 1 - guards
    assert torch.equal(traced(X), X)
    with pytest.raises((AssertionError, GuardError)):
        traced(X[0] - 9)


def test_a_variable_of_old_code_is_its_tensor():
    traced = fxcore.symbolic_trace(lambda x: torch.autograd.Variable(x) * 2, example_inputs=(X,))

    assert torch.equal(traced(X), X * 2)


def test_code_that_wants_data_past_the_recording_is_refused_with_a_cure():
    def program(x):
        with torch._C.DisableTorchFunctionSubclass():
            return torch.ops.aten.neg.default(x)

    with pytest.raises(
        TraceError, match=r"neg\.default wants the data of 'x', which is not there while tracing"
    ) as caught:
        fxcore.symbolic_trace(program, example_inputs=(X,))
    assert "with fxcore.wrap(), or the module with leaf_modules=" in str(caught.value)


def test_a_proxy_with_an_example_is_a_proxy_of_torch_fx_to_libraries_that_ask(capsys):
    def asks(x):
        print(f"a proxy of torch.fx: {isinstance(x, torch.fx.Proxy)}")
        return x + 1

    fxcore.symbolic_trace(asks, example_inputs=(torch.ones(2),))

    assert "a proxy of torch.fx: True" in capsys.readouterr().out


def test_the_keys_of_a_dict_are_walked_through():
    def total(values):
        return sum(values[key] for key in values) * sum(values.values()) + dict(values.items())["b"]

    values = {"a": X, "b": X + 1}
    made = fxcore.symbolic_trace(total, example_inputs=(values,))

    assert torch.equal(made(values), total(values))


def test_a_number_cannot_be_walked_through():
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        fxcore.symbolic_trace(lambda x: list(x.shape[0]), example_inputs=(X,))


def test_a_rounded_number_is_computed_by_the_graph():
    def rounded(x):
        return x * round(x.sum().item(), 1) + round(x.sum().item())

    made = fxcore.symbolic_trace(rounded, example_inputs=(X,))

    assert torch.equal(made(X + 1), rounded(X + 1))


class Batch:
    def __init__(self, x, count=1, **more):
        self.x, self.count = x, count
        vars(self).update(more)


def doubled_in_a_new_attribute(batch):
    batch.y = batch.x * 2
    return batch.y + 1


def read_before_it_is_written(batch):
    before = batch.x
    batch.x, batch.count = torch.zeros(2), batch.count + 1
    return before * batch.count


def deleted(batch):
    x = batch.x
    del batch.x, batch.count
    return x


@pytest.mark.parametrize("function", [doubled_in_a_new_attribute, read_before_it_is_written, deleted])
def test_the_graph_writes_attributes_of_an_input_as_the_code_does(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=(Batch(torch.ones(2)),))

    expected, obtained = Batch(torch.arange(3.0), 4), Batch(torch.arange(3.0), 4)
    assert torch.equal(graph_module(obtained), function(expected))
    assert vars(obtained).keys() == vars(expected).keys()
    for name, value in vars(expected).items():
        assert torch.equal(torch.as_tensor(vars(obtained)[name]), torch.as_tensor(value))


def test_a_refused_call_takes_a_written_attribute_of_an_input_back():
    def asks_late(batch):
        batch.y = batch.x * 2
        return batch.y if batch.y.reshape(-1, 2).shape[0] == 1 else -batch.y

    graph_module = fxcore.symbolic_trace(asks_late, example_inputs=(Batch(torch.ones(2)),))

    batch = Batch(torch.ones(4))
    with pytest.raises(GuardError):
        graph_module(batch)
    assert vars(batch).keys() == {"x", "count"}


def extended(items):
    items += [items[0] * 2]
    return items[-1], len(items)


def without_the_first(items):
    del items[0]
    return items[0]


def updated(named):
    named |= {"z": named["a"] * 2}
    del named["a"]
    return named["z"], named.keys() == {"z", "b"}


@pytest.mark.parametrize("function", [extended, without_the_first, updated])
def test_the_graph_changes_containers_of_the_caller_as_the_code_does(function):
    def example(size):
        tensors = torch.ones(size), torch.zeros(size)
        return dict(zip("ab", tensors, strict=True)) if function is updated else list(tensors)

    graph_module = fxcore.symbolic_trace(function, example_inputs=(example(2),))

    expected, obtained = example(3), example(3)
    assert repr(graph_module(obtained)) == repr(function(expected))
    assert repr(obtained) == repr(expected)


def test_a_refused_call_takes_an_extended_list_back():
    def asks_late(items):
        items += [items[0] * 2]
        return items[1] if items[1].shape[0] == 2 else -items[1]

    graph_module = fxcore.symbolic_trace(asks_late, example_inputs=([torch.ones(2)],))

    items = [torch.ones(3)]
    with pytest.raises(GuardError):
        graph_module(items)
    assert len(items) == 1


def test_a_number_changed_in_place_is_a_new_number():
    def counted(x, count):
        count += x.shape[0]
        count *= 2
        return x * count

    graph_module = fxcore.symbolic_trace(counted, example_inputs=(torch.ones(2), 1))

    assert "count + getitem" in graph_module.code
    assert torch.equal(graph_module(torch.ones(3), 2), counted(torch.ones(3), 2))


def test_an_item_of_a_flat_view_of_an_array_is_contents():
    with pytest.raises(TraceError, match=r"The value 'getitem' \(call_function getitem\) was turned into a float"):
        fxcore.symbolic_trace(lambda x: x * float(x.numpy().flat[0]), example_inputs=(X,))


def negative_start(x):
    (width,) = x.shape[-1:]
    return x.reshape(width, -1)


def start_at_zero(x):
    height, width = x.shape[0:]
    return x.reshape(width, height)


def empty_slice(x):
    () = x.shape[:0]
    return x * 2


def both_from_zero(x):
    height, width = x.shape[0:2]
    return x.reshape(width, height)


def last_to_the_second(x):
    (width,) = x.shape[-1:2]
    return x.reshape(width, -1)


def all_sizes(x):
    height, width = x.size()
    return x.reshape(width, height)


def sizes_of_an_operator(x):
    height, width = torch.relu(x).size()
    return x.reshape(width, height)


def sizes_of_an_attribute(batch):
    height, width = batch.x.shape
    return batch.x.reshape(width, height)


def two_items(items):
    first, second = items
    return first + second


def refused_where_it_is_low(x):
    if x.sum() < -1:
        raise ValueError
    return x * 2


def decided_by_a_percent_format(x):
    return x * {"3 rows": 2}.get("%d rows" % x.shape[0], 1)  # noqa: UP031 - the point


def int_in_an_assertion(x):
    torch._assert(x.dim() == 2, "got " + str(int(x.shape[0])))
    return x * 2


def float_in_an_assertion(x, scale):
    torch._assert(x.dim() == 2, "got %d" % scale)  # noqa: UP031 - the point
    return x * 2


def of_a_class(x):
    return x * 2 if x.__class__ is torch.Tensor else x


def of_a_class_of_numbers(batch):
    return batch.x * 2 if batch.count.__class__ is int else batch.x


def a_result_of_a_class(x):
    return x * 2 if (x + 1).__class__ is torch.Tensor else x


def instance_of_a_number(batch):
    return batch.x * 2 if builtins.isinstance(batch.count, int) else batch.x


def truth_of_chunks(x):
    return x * 2 if x.chunk(2) else x


def tried_in_vain(batch):
    try:
        return batch.x * batch.scale
    except AttributeError:
        return batch.x


def tried(batch):
    try:
        return batch.x * batch.count
    except AttributeError:
        return batch.x


def without_mask(batch):
    return batch.x if batch.mask is None else batch.x * 2


def flagged(batch):
    return batch.x * 2 if batch.flag is True else batch.x


def named_operator(batch):
    return getattr(torch, batch.how)(batch.x)


def text_is_no_sequence(text, x):
    match text:
        case [_, *_]:
            return x
        case str():
            return x * 2
        case bytearray():
            return x * 3


class Named(dict):
    """A dict with methods of its own."""

    def values(self, scale=1, *, by=0):
        return [value * scale + by for value in super().values()]

    def get(self, key, *, scale=1):
        return self[key] * scale


@pytest.mark.parametrize(
    ("function", "example", "guards", "nodes"),
    [
        (lambda x: torch.relu(input=x), (X,), [], "x relu output"),
        (
            lambda x: x + torch.zeros(x.shape[0], 4),
            (X,),
            [],
            "x getattr_1 getitem zeros add output",
        ),
        (negative_start, (X,), [], "x getattr_1 getitem getitem_1 reshape output"),
        (start_at_zero, (X,), ["len(x.shape[0:]) == 2"], "x getattr_1 getitem getitem_1 getitem_2 reshape output"),
        (empty_slice, (X,), [], "x getattr_1 getitem mul output"),
        (both_from_zero, (X,), [], "x getattr_1 getitem getitem_1 getitem_2 reshape output"),
        (last_to_the_second, (X,), ["len(x.shape[-1:2]) == 1"], "x getattr_1 getitem getitem_1 reshape output"),
        (all_sizes, (X,), ["len(x.size()) == 2"], "x size getitem getitem_1 reshape output"),
        (sizes_of_an_operator, (X,), [], "x relu size getitem getitem_1 reshape output"),
        (
            sizes_of_an_attribute,
            (Batch(X),),
            ["len(batch.x.shape) == 2"],
            "batch getattr_1 getattr_2 getitem getitem_1 getattr_3 reshape output",
        ),
        (two_items, ([X, X],), ["len(items) == 2"], "items getitem getitem_1 add output"),
        (refused_where_it_is_low, (X,), [], "x sum_1 lt not_ _assert mul output"),
        (decided_by_a_percent_format, (X,), ["x.shape[0] == 3"], "x mul output"),
        (int_in_an_assertion, (X,), ["x.shape[0] == 3"], "x dim eq _assert mul output"),
        (float_in_an_assertion, (X, 2.5), ["scale == 2.5"], "x scale dim eq _assert mul output"),
        (of_a_class, (X,), ["type(x) is torch.Tensor"], "x mul output"),
        (of_a_class_of_numbers, (Batch(X),), ["type(batch.count) is int"], "batch getattr_2 mul output"),
        (a_result_of_a_class, (X,), [], "x add mul output"),
        (instance_of_a_number, (Batch(X),), ["type(batch.count) is int"], "batch getattr_2 mul output"),
        (truth_of_chunks, (X,), ["bool(x.chunk(2))"], "x mul output"),
        (
            tried_in_vain,
            (Batch(X),),
            ["hasattr(batch, 'x')", "not hasattr(batch, 'scale')"],
            "batch getattr_1 getattr_2 output",
        ),
        (
            tried,
            (Batch(X),),
            ["hasattr(batch, 'x')", "hasattr(batch, 'count')"],
            "batch getattr_1 getattr_2 mul output",
        ),
        (
            lambda batch: batch.x * getattr(batch, "scale", 2),
            (Batch(X),),
            ["not hasattr(batch, 'scale')"],
            "batch getattr_1 mul output",
        ),
        (without_mask, (Batch(X, mask=None),), ["batch.mask is None"], "batch getattr_2 output"),
        (without_mask, (Batch(X, mask=X),), ["batch.mask is not None"], "batch getattr_2 mul output"),
        (flagged, (Batch(X, flag=True),), ["batch.flag"], "batch getattr_2 mul output"),
        (named_operator, (Batch(X, how="relu"),), ["batch.how == 'relu'"], "batch getattr_2 relu output"),
        (lambda x: x if x.grad is None else x.grad, (X,), ["x.grad is None"], "x output"),
        (
            lambda x: x * 2 if x.layout is torch.strided else x,
            (X,),
            ["x.layout == torch.strided"],
            "x mul output",
        ),
        (
            lambda x: x * 2 if (x + 1).layout is torch.strided else x,
            (X,),
            [],
            "x add mul output",
        ),
        (
            lambda x: x * 2 if x.dtype is torch.float32 else x,
            (X,),
            ["x.dtype == torch.float32"],
            "x mul output",
        ),
        (lambda x: x.to(x.dtype), (X,), [], "x getattr_1 to output"),
        (
            text_is_no_sequence,
            ("ab", X),
            ["text == 'ab'", "isinstance(x, torch.Tensor)"],
            "text x mul output",
        ),
        (
            text_is_no_sequence,
            (bytearray(b"ab"), X),
            ["type(text) is bytearray", "isinstance(x, torch.Tensor)"],
            "text x mul output",
        ),
        (lambda named: named.values(2)[0], (Named(a=X),), [], "named values getitem output"),
        (lambda named: named.values(by=2)[0], (Named(a=X),), [], "named values getitem output"),
        (lambda named: named.get("a", scale=3), (Named(a=X),), [], "named get output"),
        (lambda named: named.pop("a") + 1, ({"a": X},), ["'a' in named"], "named pop add output"),
        (lambda named: named.get("a") + 1, ({"a": X},), ["'a' in named"], "named getitem add output"),
        (lambda named: named.get("z", named["a"]) + 1, ({"a": X},), ["'z' not in named"], "named getitem add output"),
        (
            lambda named: named["a"] if named.get("z") is None else -named["a"],
            ({"a": X},),
            ["'z' not in named"],
            "named getitem output",
        ),
        (lambda named: named.copy()["a"], ({"a": X},), [], "named copy getitem output"),
        (lambda items: items.pop(0) + 1, ([X, -X],), [], "items pop add output"),
        (lambda items: items.copy()[0], ([X, -X],), [], "items copy getitem output"),
        (
            lambda x: x * 2 if x.numpy().ndim == 2 else x,
            (X,),
            ["x.numpy().ndim == 2"],
            "x mul output",
        ),
    ],
)
def test_a_small_program_has_these_guards_and_these_nodes(function, example, guards, nodes):
    traced = fxcore.symbolic_trace(function, example_inputs=example)

    assert [str(guard) for guard in traced.graph.guards] == guards
    assert " ".join(node.name for node in traced.graph.nodes) == nodes
    assert torch.equal(traced(*copy.deepcopy(example)), function(*copy.deepcopy(example)))


def size_asked_of_found(x, ask):
    found = x.nonzero()
    return x * 2 if ask(found) else x


@pytest.mark.parametrize(
    ("ask", "guards"),
    [
        (lambda found: found.ndim == 2, ["nonzero(...).ndim == 2"]),
        (lambda found: found.shape[1] == 2, ["nonzero(...).shape[1] == 2"]),
        (lambda found: found.dtype == torch.int64, ["nonzero(...).dtype == torch.int64"]),
        (lambda found: not found.requires_grad, ["not nonzero(...).requires_grad"]),
        (lambda found: found.itemsize == 8, ["nonzero(...).itemsize == 8"]),
        (lambda found: found.shape[0] == 12, None),
        (lambda found: found.shape == (12, 2), None),
        (lambda found: found.nbytes == 192, None),
        (lambda found: found.mT.shape[1] == 12, None),
        (lambda found: (found.shape[0] + 1) == 13, None),
    ],
)
def test_contents_decide_about_the_sizes_that_they_change_and_about_no_other_attribute(ask, guards):
    def program(x):
        return size_asked_of_found(x, ask)

    if guards is None:
        with pytest.raises(TraceError, match="It follows from the contents of a tensor"):
            fxcore.symbolic_trace(program, example_inputs=(X + 1,))
    else:
        traced = fxcore.symbolic_trace(program, example_inputs=(X + 1,))
        assert [str(guard) for guard in traced.graph.guards] == guards
        assert torch.equal(traced(X), X * 2)


class Kept(torch.nn.Module):
    def __init__(self, ask):
        super().__init__()
        self.register_buffer("table", torch.ones(3, 4))
        self.register_buffer("one", torch.ones(1))
        self.weight, self.ask = torch.nn.Parameter(torch.ones(3, 4)), ask

    def forward(self, x):
        return x * 2 if self.ask(self) else x


@pytest.mark.parametrize(
    ("ask", "guards"),
    [
        (lambda model: model.table.layout is torch.strided, ["self.table.layout == torch.strided"]),
        (lambda model: model.weight.grad is None, ["self.weight.grad is None"]),
        (lambda model: (model.weight + 1).layout is torch.strided, []),
        (lambda model: builtins.isinstance(model.weight, torch.nn.Parameter), []),
        (lambda model: not builtins.isinstance(model.table, torch.nn.Parameter), []),
        (lambda model: model.one.numpy(), ["bool(self.one.numpy())"]),
        (lambda model: model.table.numpy().sum() > 0, ["bool(self.table.numpy().sum() > 0)"]),
    ],
)
def test_an_answer_about_the_state_of_the_model_is_a_guard_where_the_state_may_change(ask, guards):
    traced = fxcore.symbolic_trace(Kept(ask), example_inputs=(X,))

    assert [str(guard) for guard in traced.graph.guards] == guards
    assert torch.equal(traced(X), X * 2)


def test_code_of_a_library_that_asks_for_a_proxy_notes_that_the_input_is_a_tensor():
    traced = fxcore.symbolic_trace(
        lambda x: x * 2 if builtins.isinstance(x, torch.fx.Proxy) else x, example_inputs=(X,)
    )

    assert [str(guard) for guard in traced.graph.guards] == ["isinstance(x, torch.Tensor)"]
    assert torch.equal(traced(X), X * 2)


def test_proxies_are_those_of_fxcore_alone_where_torch_fx_is_not_imported(monkeypatch):
    monkeypatch.setattr("fxcore.torch_fx_registry.proxy_class", lambda: None)

    assert class_of_proxies() is fxcore.Proxy
