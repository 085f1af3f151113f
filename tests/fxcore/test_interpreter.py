from __future__ import annotations

import contextlib
import operator

import pytest
import torch
import torch.fx
from torch import nn

import fxcore
from fixtures.oracle import assert_same
from fxcore.errors import FxError, InterpreterError
from fxcore.interpreter import Interpreter, Transformer
from fxcore.proxy import GraphAppendingTracer


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x, y=1.0):
        return torch.relu(self.linear(x)).mul(self.scale) + y


def test_a_graph_run_node_by_node_gives_what_the_module_gives():
    model, x = Small(), torch.randn(2, 3)

    result = Interpreter(fxcore.symbolic_trace(model)).run(x, 0.5)

    assert torch.equal(result, model(x, 0.5))


def test_a_missing_argument_falls_back_to_the_default():
    model, x = Small(), torch.randn(2, 3)

    result = Interpreter(fxcore.symbolic_trace(model)).run(x)

    assert torch.equal(result, model(x))


def test_a_missing_argument_without_default_is_named():
    interpreter = Interpreter(fxcore.symbolic_trace(lambda x: torch.relu(x)))

    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x, but one was not passed in!"):
        interpreter.run()


def test_starred_parameters_take_all_arguments_that_are_left():
    graph = fxcore.Graph()
    first, rest = graph.placeholder("first"), graph.placeholder("*rest")
    graph.output((first, rest))

    assert Interpreter(nn.Module(), graph=graph).run(1, 2, 3) == (1, [2, 3])


def test_subclasses_replace_what_an_opcode_does():
    class Swapped(Interpreter):
        def call_function(self, target, args, kwargs):
            if target is torch.sigmoid:
                return torch.neg(*args, **kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            if target == "neg":
                value, *rest = args
                return value.sigmoid(*rest, **kwargs)
            return super().call_method(target, args, kwargs)

    x = torch.randn(3, 4)

    result = Swapped(fxcore.symbolic_trace(lambda x: torch.sigmoid(x).neg())).run(x)

    assert torch.equal(result, torch.neg(x).sigmoid())


def test_an_overridden_run_node_is_asked_for_every_node():
    class Named(Interpreter):
        def run_node(self, n):
            names.append(n.name)
            return super().run_node(n)

    names: list[str] = []
    traced = fxcore.symbolic_trace(Small())

    Named(traced).run(torch.ones(1, 3))

    assert names == [node.name for node in traced.graph.nodes]


def test_an_overridden_set_current_node_is_called_for_every_node():
    class Announced(Interpreter):
        @contextlib.contextmanager
        def _set_current_node(self, node):
            names.append(node.name)
            yield

    names: list[str] = []

    Announced(fxcore.symbolic_trace(lambda x: torch.relu(x))).run(torch.ones(1))

    assert names == ["x", "relu", "output"]


def test_values_that_are_known_already_are_not_computed():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x) + 1)
    relu = next(node for node in traced.graph.nodes if node.name == "relu")

    result = Interpreter(traced).run(torch.tensor(-1.0), initial_env={relu: torch.tensor(5.0)})

    assert result == 6.0


def test_values_are_dropped_after_their_last_reader():
    class Watched(Interpreter):
        def run_node(self, n):
            alive.append([node.name for node in self.env])
            return super().run_node(n)

    alive: list[list[str]] = []

    Watched(fxcore.symbolic_trace(lambda x: (x + 1) * 2)).run(torch.ones(1))

    assert alive == [[], ["x"], ["add"], ["mul"]]


def test_values_stay_if_garbage_collection_is_off():
    interpreter = Interpreter(fxcore.symbolic_trace(lambda x: (x + 1) * 2), garbage_collect_values=False)

    interpreter.run(torch.ones(1))

    assert [node.name for node in interpreter.env] == ["x", "add", "mul", "output"]
    assert not hasattr(interpreter, "user_to_last_uses")


def test_boxed_arguments_are_taken_out_of_their_list():
    arguments = [torch.ones(2), torch.ones(2)]

    result = Interpreter(fxcore.symbolic_trace(lambda x, y: x + y)).boxed_run(arguments)

    assert result.tolist() == [2, 2]
    assert arguments == []


@pytest.mark.parametrize(("count", "kind"), [(1, "missing arguments"), (3, "extra arguments")])
def test_boxed_arguments_are_counted(count, kind):
    interpreter = Interpreter(fxcore.symbolic_trace(lambda x, y: x + y))

    with pytest.raises(RuntimeError, match=rf"expected 2 arguments for placeholders but received {count} \({kind}\)"):
        interpreter.boxed_run([1] * count)


def test_nested_inputs_and_outputs_go_through_the_graphs_code_generator():
    def swap(pair):
        return {"sum": pair["x"] + pair["y"]}

    traced = fxcore.symbolic_trace(swap, concrete_args={"pair": {"x": fxcore.PH, "y": fxcore.PH}})

    assert Interpreter(traced).run({"x": 1, "y": 2}) == {"sum": 3}
    assert Interpreter(traced).run(1, 2, enable_io_processing=False) == [3]


def test_what_a_node_raises_says_which_node_it_was():
    interpreter = Interpreter(fxcore.symbolic_trace(lambda x, y: torch.matmul(x, y)))

    with pytest.raises(RuntimeError) as caught:
        interpreter.run(torch.ones(2, 3), torch.ones(2, 3))

    message = str(caught.value)
    assert message.startswith("mat1 and mat2 shapes cannot be multiplied")
    assert "\n\nWhile executing %matmul : [num_users=1] = call_function[target=torch.matmul]" in message
    assert message.endswith("\nOriginal traceback:\nNone")


def test_messages_differ_from_torchs_in_its_advertisement_alone():
    def message_of(fx):
        with pytest.raises(RuntimeError) as caught:
            fx.Interpreter(fx.symbolic_trace(lambda x, y: torch.matmul(x, y))).run(torch.ones(2, 3), torch.ones(2, 3))
        return str(caught.value)

    theirs, ours = message_of(torch.fx), message_of(fxcore)

    assert theirs.partition("\nUse tlparse")[0] == ours


def test_a_key_error_becomes_a_runtime_error_that_shows_its_lines():
    interpreter = Interpreter(fxcore.symbolic_trace(lambda table: table["absent"]))

    with pytest.raises(RuntimeError, match="absent\n\nWhile executing %getitem") as caught:
        interpreter.run({})

    assert isinstance(caught.value.__cause__, KeyError)


def test_no_note_is_made_if_it_is_not_wanted():
    interpreter = Interpreter(fxcore.symbolic_trace(lambda table: table["absent"]))
    interpreter.extra_traceback = False

    with pytest.raises(KeyError, match=r"^'absent'$"):
        interpreter.run({})


def test_a_value_that_is_not_there_is_named():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    relu = next(node for node in traced.graph.nodes if node.name == "relu")

    with pytest.raises(RuntimeError, match=r"Node relu referenced nonexistent value x! Run Graph\.lint"):
        Interpreter(traced).fetch_args_kwargs_from_env(relu)


def test_a_path_that_leads_nowhere_is_named_as_far_as_it_goes():
    with pytest.raises(InterpreterError, match=r"Node referenced nonexistent target linear\.absent: Small"):
        Interpreter(fxcore.symbolic_trace(Small())).fetch_attr("linear.absent.weight")


def test_another_graph_runs_on_the_modules_state():
    model = Small()
    graph = fxcore.Graph()
    graph.output(graph.get_attr("linear.bias"))

    assert Interpreter(model, graph=graph).run() is model.linear.bias


def test_a_graph_without_output_gives_none():
    graph = fxcore.Graph()
    graph.call_function(operator.add, (1, 2))

    assert Interpreter(nn.Module(), graph=graph).run() is None


def test_edits_between_runs_are_seen():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    interpreter = Interpreter(traced)
    before = interpreter.run(torch.tensor(-1.0))
    next(node for node in traced.graph.nodes if node.name == "relu").target = torch.neg

    after = interpreter.run(torch.tensor(-1.0))

    assert (before.item(), after.item()) == (0.0, 1.0)


def test_containers_of_values_are_filled_in_as_torch_does():
    def types_seen(fx):
        class Typed(fx.Interpreter):
            def call_function(self, target, args, kwargs):
                seen.append([type(value).__name__ for value in (*args, *kwargs.values())])
                return super().call_function(target, args, kwargs)

        seen: list[list[str]] = []
        traced = fx.symbolic_trace(lambda x: torch.cat([x, x], dim=0)[0:1] + torch.stack((x, x)).sum())
        Typed(traced).run(torch.ones(2))
        return seen

    assert types_seen(fxcore) == types_seen(torch.fx)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor, y: float = 1.0) -> torch.Tensor:
        return torch.relu(self.linear(x)).mul(self.scale) + y


def test_a_transformer_that_changes_nothing_makes_an_equal_module():
    traced, x = fxcore.symbolic_trace(Block()), torch.randn(2, 3)

    transformed = Transformer(traced).transform()

    assert torch.equal(transformed(x), traced(x))
    assert transformed.linear is traced.linear
    assert [node.name for node in transformed.graph.nodes] == [node.name for node in traced.graph.nodes]


def test_operators_are_swapped_as_in_torch():
    def swapped(fx):
        class Swap(fx.Transformer):
            def call_function(self, target, args, kwargs):
                if target is torch.sigmoid:
                    return torch.neg(*args, **kwargs)
                return super().call_function(target, args, kwargs)

            def call_method(self, target, args, kwargs):
                if target == "neg":
                    value, *rest = args
                    return value.sigmoid(*rest, **kwargs)
                return super().call_method(target, args, kwargs)

        return Swap(fx.symbolic_trace(lambda x: torch.sigmoid(x).neg())).transform()

    ours, theirs = swapped(fxcore), swapped(torch.fx)

    assert str(ours.graph) == str(theirs.graph)
    assert ours.code == theirs.code


def test_the_graph_printed_is_torchs_without_annotations():
    def transformed(fx):
        return fx.Transformer(fx.symbolic_trace(Block())).transform()

    assert transformed(fxcore).code == transformed(torch.fx).code
    assert "def forward(self, x, y = 1.0):" in transformed(fxcore).code


def test_annotations_are_kept_on_request():
    traced = fxcore.symbolic_trace(Block())

    transformed = Transformer(traced).transform(keep_types=True)

    assert transformed.code == traced.code
    assert [node.type for node in transformed.graph.nodes] == [node.type for node in traced.graph.nodes]
    assert transformed.graph.output_node().type is not None


def test_metadata_is_kept_where_torch_drops_it():
    """The graph's nodes come out with what passes noted on them (pytorch#95314)."""

    def noted(fx):
        traced = fx.symbolic_trace(Block())
        for node in traced.graph.nodes:
            node.meta["note"] = node.name
        return [node.meta.get("note") for node in fx.Transformer(traced).transform().graph.nodes]

    assert noted(torch.fx) == [None, None, None, None, None, None, None, "output"]
    assert noted(fxcore) == ["x", "y", "linear", "relu", "scale", "mul", "add", "output"]


def test_a_node_of_another_kind_gets_no_notes_that_are_not_about_it():
    class Swap(Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.neg if target is torch.relu else target, args, kwargs)

    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    for node in traced.graph.nodes:
        node.meta.update(note=node.name, custom={"kept": True})

    neg = next(node for node in Swap(traced).transform().graph.nodes if node.op == "call_function")

    assert "note" not in neg.meta
    assert neg.meta["custom"] == {"kept": True}


def test_a_value_returned_in_place_of_a_node_keeps_its_own_notes():
    class WithoutRelu(Transformer):
        def call_function(self, target, args, kwargs):
            return args[0] if target is torch.relu else super().call_function(target, args, kwargs)

    traced = fxcore.symbolic_trace(lambda x: torch.relu(torch.relu(torch.neg(x))))
    for node in traced.graph.nodes:
        node.meta["note"] = node.name

    transformed = WithoutRelu(traced).transform()

    assert [node.meta["note"] for node in transformed.graph.nodes] == ["x", "neg", "output"]


def test_transformed_modules_can_be_transformed_again():
    traced, x = fxcore.symbolic_trace(Block()), torch.randn(2, 3)

    twice = Transformer(Transformer(traced).transform()).transform()

    assert torch.equal(twice(x), traced(x))


def test_a_transform_within_a_transform_does_not_disturb_it():
    class Nested(Transformer):
        def call_module(self, target, args, kwargs):
            child = self.fetch_attr(target)
            if isinstance(child, fxcore.GraphModule):
                setattr(self.module, target, Transformer(child).transform())
            return super().call_module(target, args, kwargs)

    inner = fxcore.symbolic_trace(Block())

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return torch.neg(self.inner(torch.relu(x)))

    class Leafy(fxcore.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    outer, x = Outer(), torch.randn(2, 3)
    traced = fxcore.GraphModule(outer, Leafy().trace(outer))
    expected = traced(x)

    transformed = Nested(traced).transform()

    assert torch.equal(transformed(x), expected)
    assert transformed.inner is not inner


def test_the_class_of_the_tracer_is_kept():
    class Mine(fxcore.Tracer):
        pass

    model = Block()
    traced = fxcore.GraphModule(model, Mine().trace(model))

    assert Transformer(traced).transform().graph._tracer_cls is Mine


def test_nested_inputs_and_outputs_stay_nested():
    def swap(pair):
        return {"sum": pair["x"] + pair["y"]}

    traced = fxcore.symbolic_trace(swap, concrete_args={"pair": {"x": fxcore.PH, "y": fxcore.PH}})

    assert Transformer(traced).transform()({"x": 1, "y": 2}) == {"sum": 3}


def test_a_tracer_of_ones_own_decides_what_is_a_leaf():
    class Inlined(fxcore.Tracer):
        def __init__(self, graph, root):
            super().__init__()
            self.graph, self.root = graph, root

        def is_leaf_module(self, m, module_qualified_name):
            return False

    class Inlining(Transformer):
        def __init__(self, module):
            super().__init__(module)
            self.tracer = Inlined(self.new_graph, module)

    class Doubled(nn.Module):
        def forward(self, x):
            return x + x

    traced = fxcore.GraphModule(nn.Sequential(Doubled()), fxcore.Graph())
    traced.add_submodule("twice", Doubled())
    traced.graph.output(traced.graph.call_module("twice", (traced.graph.placeholder("x"),)))
    traced.recompile()

    transformed = Inlining(traced).transform()

    assert [node.op for node in transformed.graph.nodes] == ["placeholder", "call_function", "output"]


def test_modules_installed_while_transforming_are_found():
    class Installing(Transformer):
        def call_function(self, target, args, kwargs):
            self.module.add_submodule("late", nn.ReLU())
            return self.call_module("late", args, kwargs)

    transformed = Installing(fxcore.symbolic_trace(lambda x: torch.relu(x))).transform()

    assert isinstance(transformed.late, nn.ReLU)
    assert transformed(torch.tensor(-1.0)) == 0


def test_constants_used_while_transforming_become_attributes():
    class Shifting(Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(target, args, kwargs) + torch.tensor([5.0])

    transformed = Shifting(fxcore.symbolic_trace(lambda x: torch.relu(x))).transform()

    assert transformed(torch.tensor([1.0])).tolist() == [6.0]


@pytest.mark.parametrize("method", ["placeholder", "get_attr", "call_module"])
def test_targets_that_are_no_paths_are_refused(method):
    transformer = Transformer(fxcore.symbolic_trace(Block()))

    with pytest.raises(AssertionError, match="Expected target to be str, got <class 'int'>: 3 is no name and no path"):
        getattr(transformer, method)(3, (), {})


def test_a_method_that_replaces_one_of_a_transformer_s_tracer_is_called_for_every_node():
    transformer = Transformer(fxcore.symbolic_trace(Small()))
    names = []
    create_node = transformer.tracer.create_node

    def noted(*args, **kwargs):
        node = create_node(*args, **kwargs)
        names.append(node.name)
        return node

    transformer.tracer.create_node = noted
    made = transformer.transform()

    assert names == [node.name for node in made.graph.nodes if node.op not in ("placeholder", "output")]


def test_a_function_that_is_a_name_and_other_containers_are_refused():
    class Lists(Interpreter):
        def map_nodes_to_values(self, args, n):
            return list(super().map_nodes_to_values(args, n))

    module = fxcore.symbolic_trace(lambda x: x + 1)

    with pytest.raises(FxError, match=r"^target should not be a string for call_function, got 'relu'$"):
        Interpreter(module).call_function("relu", (1,), {})
    with pytest.raises(FxError, match=r"Expected args to be tuple and kwargs to be dict, got <class 'list'> and "):
        Lists(module).run(1)


def test_a_missing_value_in_given_arguments_is_named_too():
    def asked(fx):
        traced = fx.symbolic_trace(lambda x: torch.relu(x))
        x, relu, output = traced.graph.nodes
        interpreter = fx.Interpreter(traced)
        interpreter.env[x] = 3
        assert interpreter.map_nodes_to_values((x, [x, 1], {"k": x}, "text"), output) == (3, [3, 1], {"k": 3}, "text")
        assert interpreter.map_nodes_to_values([x], output) == [3]
        messages = []
        for arguments in ((x, relu), [relu], {"k": (1, relu)}):
            with pytest.raises(RuntimeError) as caught:
                interpreter.map_nodes_to_values(arguments, x)
            messages.append(str(caught.value))
        return messages

    assert_same(asked)


@pytest.mark.parametrize(("count", "kind"), [(0, "missing arguments"), (1, None), (2, "extra arguments")])
def test_as_many_boxed_arguments_are_taken_as_there_are_inputs(count, kind):
    interpreter, boxed = Interpreter(fxcore.symbolic_trace(torch.nn.ReLU())), [torch.ones(1)] * count

    if kind is None:
        assert interpreter.boxed_run(boxed).tolist() == [1]
        assert boxed == []
    else:
        with pytest.raises(
            RuntimeError, match=rf"expected 1 arguments for placeholders but received {count} \({kind}\)"
        ):
            interpreter.boxed_run(boxed)


def test_a_failing_run_puts_the_modes_back_that_its_graph_switched():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output(graph.call_method("reshape", (x, 7)))

    try:
        with pytest.raises(RuntimeError):
            Interpreter(nn.Module(), graph=graph).run(torch.ones(2))
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_keywords_and_the_further_arguments_of_an_error_are_kept():
    def fail(x, *, code):
        raise ValueError(code, "further")

    traced = fxcore.Graph()
    x, y = traced.placeholder("x"), traced.placeholder("y")
    traced.output(traced.call_function(fail, (x,), {"code": y}))

    with pytest.raises(ValueError, match="While executing") as caught:
        Interpreter(nn.Module(), graph=traced).run(1, 5)

    assert caught.value.args[0].startswith("5\n\nWhile executing")
    assert caught.value.args[1:] == ("further",)


def test_a_transformer_refuses_a_module_that_is_not_below_its_root():
    class Foreign(Transformer):
        def call_module(self, target, args, kwargs):
            return self.tracer.call_module(nn.Tanh(), None, args, kwargs)

    traced = fxcore.symbolic_trace(nn.Sequential(nn.ReLU()))

    with pytest.raises(NameError, match="is not installed as a submodule"):
        Foreign(traced).transform()


def test_a_transformer_records_in_one_step_and_only_while_it_runs():
    class Looks(Transformer):
        def call_function(self, target, args, kwargs):
            assert self.tracer._fast is not None
            return super().call_function(target, args, kwargs)

    looks = Looks(fxcore.symbolic_trace(lambda x: x + 1))

    looks.transform()

    assert looks.tracer._fast is None


def test_a_transformer_may_have_a_tracer_of_another_kind():
    class Appends(Transformer):
        def __init__(self, module):
            super().__init__(module)
            self.tracer = GraphAppendingTracer(self.new_graph)

    assert Appends(fxcore.symbolic_trace(lambda x: x + 1)).transform()(1) == 2


def test_annotations_are_dropped_unless_asked_for():
    def function(x):
        return x

    function.__annotations__ = {"x": int, "return": int}

    def types(**options):
        return [node.type for node in Transformer(fxcore.symbolic_trace(function)).transform(**options).graph.nodes]

    assert types() == types(keep_types=False) == [None, None]
    assert types(keep_types=True) == [int, int]
