from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from pytest_fxgraph.captures.torch_internals import (
    CompiledFunction,
    DynamoLog,
    FailedFrame,
    GuardedValue,
    InternalsError,
    _facts_of_guard,
    compiled_function,
    facts_of,
    is_compiling,
    mark_size,
    modes_off,
    one_mode_for_values,
    part_of_torch,
    shape_facts,
    traced_by_make_fx,
)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("L['k'] == 2", "value", "2"),
        ("L['k'] is None", "item", "None"),
        ("len(L['k']) == 3", "length", "3"),
        ("not L['k']", "empty", "0"),
        ("dict.__contains__(L['k'], 'a')", "key", "'a'"),
        ("set.__contains__(L['k'], 'a')", "key", "'a'"),
        ("___dict_contains('a', L['k'])", "key", "'a'"),
        ("not dict.__contains__(L['k'], 'a')", "no key", "'a'"),
        ("not ___dict_contains('a', L['k'])", "no key", "'a'"),
        ("hasattr(L['k'], 'a')", "attribute", "a"),
        ("not hasattr(L['k'], 'a')", "no attribute", "a"),
        ("L['k'] is L['y']", "alias", "L['y']"),
        ("L['y'] is L['k']", "alias", "L['y']"),
        ("list(dict.keys(L['k']))[0] == 'a'", "key", "'a'"),
        ("list(L['k'].keys())[0] == 'a'", "key", "'a'"),
        ("list(dict.keys(L['k'])) == ['a']", "keys", "['a']"),
        ("list(L['k'].keys()) == ['a']", "keys", "['a']"),
        ("___check_type_id(L['k'], 94), type=<class 'int'>", "type", "int"),
        ("___check_obj_id(L['k'], <id of True>)", "value", "True"),
        ("___check_obj_id(L['k'], <id of False>)", "value", "False"),
        ("___check_obj_id(L['k'], type=<id of None>)", "value", "None"),
        ("___check_obj_id(L['k'], 7), type=<class 'function'>", "identity", "the same object"),
    ],
)
def test_a_guard_of_any_release_of_torch_is_read(code, kind, text):
    # The id of a test must be the same in every process.
    for value in (True, False, None):
        code = code.replace(f"<id of {value}>", str(id(value)))
    assert [*_facts_of_guard("L['k']", code)] == [GuardedValue(kind, "L['k']", text)]


def test_a_guard_of_another_form_says_nothing():
    assert [*_facts_of_guard("L['k']", "check_tensor(L['k'], Tensor)")] == []


def test_a_part_that_torch_lacks_is_named_with_its_purpose():
    assert part_of_torch("torch", "relu", "a test") is torch.relu
    for module, name in (("torch", "no_such_part"), ("torch.no_such_module", "x")):
        with pytest.raises(InternalsError, match=f"has no {module}.{name}, from which a test is read; use a release"):
            part_of_torch(module, name, "a test")


def guard(kind, *codes, value=None, name="L['x']", **facts):
    """Return a guard with the parts of torch's that are read."""

    def create():
        raise AssertionError("it is only named")

    create.__name__ = kind
    weak = None if value is None else lambda: value
    return SimpleNamespace(name=name, inner_create_fn=lambda: create, code_list=list(codes) or None, obj_weakref=weak,
                           create_fn=SimpleNamespace(keywords=facts))  # fmt: skip


class Tagged(torch.Tensor):
    pass


PLAIN = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("value", "example", "text"),
    [
        (PLAIN, None, "float32[2, 3] on cpu"),
        (PLAIN, torch.ones(4, 3), "float32[4, 3] on cpu"),
        (PLAIN.t(), None, "float32[3, 2] on cpu, strides (1, 3)"),
        (torch.ones(2, requires_grad=True), None, "float32[2] on cpu, requires grad"),
        (torch.nn.Parameter(torch.ones(2, 3).t()), None, "float32[3, 2] on cpu, requires grad, strides (1, 3)"),
        (PLAIN.t().as_subclass(Tagged), None, "float32[3, 2] on cpu, a Tagged"),
        (torch.eye(2).to_sparse(), None, "float32[2, 2] on cpu"),
    ],
)
def test_a_guard_on_a_tensor_tells_what_torch_compares(value, example, text):
    examples = {} if example is None else {"L['x']": example}

    assert [*facts_of(guard("TENSOR_MATCH", value=value), examples)] == [GuardedValue("tensor", "L['x']", text)]


@pytest.mark.parametrize(
    ("found", "facts"),
    [
        (guard("TENSOR_MATCH"), []),
        (guard("TENSOR_MATCH", value=3), []),
        (guard("NOT_PRESENT_IN_GENERIC_DICT", attr="forward"), [("not set", "L['x']", "forward")]),
        (guard("CLOSURE_MATCH"), [("identity", "L['x']", "the same function")]),
        (guard("FUNCTION_MATCH"), [("identity", "L['x']", "the same function")]),
        (guard("FUNCTION_MATCH", "L['x'] == 2"), [("value", "L['x']", "2")]),
        (guard("EQUALS_MATCH"), []),
        (guard("EQUALS_MATCH", "L['x'] == 2", "len(L['x']) == 3"),
         [("value", "L['x']", "2"), ("length", "L['x']", "3")]),
        (guard("CONSTANT_MATCH", "L['k'] == 2", name=lambda: "L['k']"), [("value", "L['k']", "2")]),
    ],
)  # fmt: skip
def test_other_guards_tell_their_code_or_their_kind(found, facts):
    assert [*facts_of(found, {})] == [GuardedValue(*fact) for fact in facts]


@pytest.mark.parametrize("is_skipped", [True, False])
def test_hooks_are_a_fact_where_dynamo_checks_them(monkeypatch, is_skipped):
    config = pytest.importorskip("torch._dynamo.config")
    with config.patch(skip_nnmodule_hook_guards=is_skipped):
        found = [*facts_of(guard("EMPTY_NN_MODULE_HOOKS_DICT"), {})]

    assert found == ([] if is_skipped else [GuardedValue("hooks", "L['x']", "none")])


def test_hooks_are_a_fact_where_torch_cannot_skip_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch._dynamo.config", ModuleType("config"))

    assert [*facts_of(guard("EMPTY_NN_MODULE_HOOKS_DICT"), {})] == [GuardedValue("hooks", "L['x']", "none")]


@pytest.mark.parametrize("kind", ["GLOBAL_STATE", "GRAD_MODE"])
def test_the_modes_of_torch_are_read_at_their_guard(kind):
    with torch.no_grad():
        found = {fact.name: fact.text for fact in facts_of(guard(kind), {})}

    assert found["torch.is_grad_enabled()"] == "False"
    assert found["torch.get_default_dtype()"] == "torch.float32"
    assert not any("autocast_dtype" in name for name in found)
    with torch.autocast("cpu", torch.float16):
        found = {fact.name: fact.text for fact in facts_of(guard(kind), {})}
    assert found["torch.get_autocast_dtype('cpu')"] == "torch.float16"


def metrics(**facts):
    """Return the entry of a function that Dynamo looked at."""
    given = {"fail_type": None, "fail_reason": None, "has_guarded_code": True, "restart_reasons": None,
             "graph_op_count": None, "co_filename": "net.py", "co_name": "forward", "co_firstlineno": 3,
             "fail_user_frame_lineno": 4}  # fmt: skip
    return SimpleNamespace(**{**given, **facts})


@pytest.mark.parametrize(
    ("entry", "kind", "reason"),
    [
        ({"fail_type": "Unsupported", "fail_reason": "words"}, "Unsupported", "words"),
        ({"fail_type": "Unsupported", "graph_op_count": 3}, "Unsupported", ""),
        ({}, "", ""),
        ({"has_guarded_code": False, "restart_reasons": {"b", "a"}}, "skipped", "a"),
        ({"has_guarded_code": False, "fail_reason": "words", "restart_reasons": {"a"}}, "skipped", "words"),
        ({"has_guarded_code": False}, "skipped", "the last refusal"),
        ({"graph_op_count": 3}, None, None),
        ({"co_filename": None}, None, None),
    ],
)
def test_functions_that_dynamo_gave_up_have_a_kind_and_a_reason(monkeypatch, entry, kind, reason):
    utils = pytest.importorskip("torch._dynamo.utils")
    refusals = {"an earlier refusal": 1, "another one": 2}
    monkeypatch.setattr(utils, "counters", {"unimplemented": refusals})
    monkeypatch.setattr(utils, "get_compilation_metrics", lambda: [metrics(**entry)])
    log = DynamoLog()
    refusals["the last refusal"] = 1

    found = [] if kind is None else [FailedFrame("net.py", "forward", 3, 4, kind, reason)]
    assert log.failed_frames() == found


def test_without_a_refusal_there_is_no_reason(monkeypatch):
    utils = pytest.importorskip("torch._dynamo.utils")
    monkeypatch.setattr(utils, "counters", {"unimplemented": {"an earlier refusal": 1}})
    monkeypatch.setattr(utils, "get_compilation_metrics", lambda: [metrics(has_guarded_code=False)])

    assert [(each.kind, each.reason) for each in DynamoLog().failed_frames()] == [("", "")]


def test_breaks_from_before_the_log_are_no_part_of_it(monkeypatch):
    output_graph = pytest.importorskip("torch._dynamo.output_graph")
    monkeypatch.setattr(output_graph, "graph_break_reasons", ["before"])
    log = DynamoLog()
    output_graph.graph_break_reasons.append("after")

    assert log.break_reasons() == ["after"]


@pytest.mark.parametrize(
    ("op", "facts", "size"),
    [
        ("placeholder", {"_dynamo_source": SimpleNamespace(name="L['x']")}, 5),
        ("placeholder", {"grapharg": SimpleNamespace(source=SimpleNamespace(name="L['x']"))}, 5),
        ("placeholder", {}, 4),
        ("placeholder", {"_dynamo_source": SimpleNamespace(name="L['x']"), "example_value": 3}, 4),
        ("get_attr", {"_dynamo_source": SimpleNamespace(name="L['x']")}, 4),
    ],
)
def test_a_guard_on_a_tensor_has_the_sizes_of_the_input_of_its_name(monkeypatch, op, facts, size):
    dynamo = pytest.importorskip("torch._dynamo")
    given = {}
    monkeypatch.setattr(dynamo, "optimize", lambda backend, **hooks: given.update(hooks, backend=backend) or given.get)
    meta = {"example_value": torch.ones(5), **facts}
    source = {"_dynamo_source": meta.pop("_dynamo_source")} if "_dynamo_source" in meta else {}
    node = SimpleNamespace(op=op, meta=meta, **source)
    log, found = DynamoLog(), []
    log.on_guards = found.extend

    log.compiled(torch.relu, lambda graph_module, examples: examples, is_dynamic=None)
    assert given["backend"](SimpleNamespace(graph=SimpleNamespace(nodes=[node])), [7]) == [7]
    given["guard_export_fn"]([guard("TENSOR_MATCH", value=torch.ones(4))])

    assert found == [GuardedValue("tensor", "L['x']", f"float32[{size}] on cpu")]


@pytest.mark.parametrize(
    ("bound", "kept"),
    [(None, None), (0, None), (1, 1), (2**59, 2**59), (2**60 - 1, 2**60 - 1), (2**60, None), (3**40, None)],
)
def test_a_bound_of_a_machine_integer_is_no_bound(monkeypatch, bound, kept):
    dynamo = pytest.importorskip("torch._dynamo")
    marked = []
    monkeypatch.setattr(dynamo, "mark_dynamic", lambda *args, **bounds: marked.append((args[1], bounds)))

    mark_size(torch.ones(2), 0, SimpleNamespace(min=bound, max=bound))

    assert marked == [(0, {"min": kept, "max": kept})]


def test_dynamo_compiles_only_inside_of_a_compilation(monkeypatch):
    guards = pytest.importorskip("torch._guards")
    assert is_compiling() is False
    with guards.compile_context(guards.CompileContext(None)):
        assert is_compiling() is True
    monkeypatch.setitem(sys.modules, "torch._guards", ModuleType("guards"))
    assert is_compiling() is False


class Counting(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls += 1
        return super().__torch_function__(func, types, args, kwargs)


def test_modes_are_switched_off_and_subclasses_only_with_them(monkeypatch):
    overrides = pytest.importorskip("torch.overrides")
    monkeypatch.setattr(Counting, "calls", 0)
    seen = []

    class Watching(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    tensor = torch.ones(2).as_subclass(Counting)
    with modes_off():
        torch.relu(tensor)
    assert Counting.calls == 1
    with Watching(), modes_off():
        torch.relu(torch.ones(2))
    assert seen == []


@pytest.mark.parametrize("is_symbolic", [True, False])
def test_make_fx_describes_all_values_in_one_mode(is_symbolic):
    traced = traced_by_make_fx(
        lambda x, y: (x @ y).relu(), [torch.ones(3, 3), torch.ones(3, 3)], is_symbolic=is_symbolic, decompositions=None
    )

    values = [node.meta["val"] for node in traced.graph.nodes if "val" in node.meta]
    assert len({id(value.fake_mode) for value in values}) == 1
    assert [isinstance(value.shape[0], torch.SymInt) for value in values] == [is_symbolic] * 4


def test_values_in_a_mode_keep_it():
    guards = pytest.importorskip("torch._guards")
    fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
    fake = fake_tensor.FakeTensorMode().from_tensor(torch.ones(2))

    with one_mode_for_values([fake]):
        assert guards.TracingContext.try_get() is None
    with one_mode_for_values([torch.ones(2)]):
        assert guards.TracingContext.try_get() is not None


def traced(reason, **facts):
    function = SimpleNamespace(f_code=1, f_locals={"x": 2}, f_globals={"__name__": "net"}, **facts)
    return SimpleNamespace(root_tx=function, compile_subgraph_reason=reason)


def test_the_compiled_function_has_a_break_only_where_torch_broke():
    broken, whole = (SimpleNamespace(graph_break=is_break) for is_break in (True, False))

    assert compiled_function(traced(broken)) == CompiledFunction(1, {"x": 2}, "net", broken)
    assert (
        compiled_function(traced(whole))
        == compiled_function(traced(None))
        == CompiledFunction(1, {"x": 2}, "net", None)
    )
    with pytest.raises(
        InternalsError, match="has no 'root_tx' at Dynamo's graphs, from which the compiled function is"
    ):
        compiled_function(SimpleNamespace())


def test_symbols_have_ranges_and_assumptions():
    symbolic_shapes = pytest.importorskip("torch.fx.experimental.symbolic_shapes")
    proxy_tensor = pytest.importorskip("torch.fx.experimental.proxy_tensor")

    def halves(x, y):
        is_even = x.shape[0] % 2 == 0 and y.shape[0] > 2 and x.shape[1] < y.shape[0]
        return x[: x.shape[0] // 2] + 1 if is_even else x

    graph = proxy_tensor.make_fx(halves, tracing_mode="symbolic")(torch.ones(6, 5), torch.ones(7)).graph
    ranges, assumed = shape_facts(graph)
    assert all(isinstance(symbol, symbolic_shapes.sympy.Symbol) for symbol in ranges)
    assert len(ranges) == 3
    assert sorted(text.partition("Mod(")[1] for text in assumed) == ["", "Mod("]  # a relation of two symbols, and Mod
    value = next(node.meta["val"] for node in graph.nodes if node.op == "placeholder")
    environment = value.shape[0].node.shape_env
    for node in graph.nodes:
        node.meta = {"val": value.shape[0]} if node.op == "output" else {}
    assert len(shape_facts(graph)[0]) == 1
    environment.var_to_range = None
    with pytest.raises(
        InternalsError, match=r"has no ShapeEnv\.var_to_range, from which Capture\.range_constraints is"
    ):
        shape_facts(graph)
