"""The answers that become guards, each once, the indices of recorded calls that do not, and sizes in messages."""

from __future__ import annotations

import logging
import operator
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError, TraceError
from fxcore.guided.answers import Messages, ValueNumbers, has_marks

ITEMS = [1.0, 2.0, 3.0, 4.0]


def guards_of(function, *example):
    return [str(guard) for guard in fxcore.symbolic_trace(function, example_inputs=example).graph.guards]


def test_an_index_that_python_uses_is_a_guard():
    def shifted(x):
        return x * ITEMS[x.shape[0]] if fxcore.assume(x.sum() > 0) else x

    graph = fxcore.symbolic_trace(shifted, example_inputs=torch.ones(3)).graph

    assumed = {str(guard): guard.is_assumed for guard in graph.guards}
    assert assumed == {"x.shape[0] == 3": False, "bool(x.sum() > 0)": True}
    assert [node.name for node in graph.nodes] == ["x", "mul", "output"]


@fxcore.wrap
def counted(x):
    return len(x)


def test_a_leaf_that_only_a_guard_reads_stays_in_the_graph():
    graph = fxcore.symbolic_trace(
        lambda x: x * 2 if fxcore.assume(counted(x) > 2) else x, example_inputs=torch.ones(3)
    ).graph

    assert [node.name for node in graph.nodes] == ["x", "counted", "mul", "output"]


def test_an_index_that_a_recorded_call_asks_for_is_no_guard():
    assert guards_of(lambda x: torch.narrow(x, 0, 0, x.shape[0] - 1), torch.rand(3)) == []


def test_calls_on_one_line_are_told_apart():
    function = lambda x: torch.narrow(x, 0, 0, x.shape[0] - 1) * ITEMS[x.shape[0]]  # noqa: E731 - one line is the point
    other = lambda x: ITEMS[x.shape[0]] * torch.narrow(x, 0, 0, x.shape[0] - 1)  # noqa: E731

    assert guards_of(function, torch.rand(3)) == guards_of(other, torch.rand(3)) == ["x.shape[0] == 3"]


def test_the_same_answer_twice_is_one_guard():
    assert guards_of(lambda x: x * ITEMS[x.shape[0]] + ITEMS[x.shape[0]], torch.rand(3)) == ["x.shape[0] == 3"]


X = torch.rand(3, 4)


def asserted(x):
    torch._assert(x.dim() == 2, f"expected (n, c), got {x.shape} with {{{x.shape[0]:>3}}} rows")
    return x * 2


def formatted(x):
    torch._assert(x.dim() == 2, "got {} and {}".format(x.shape, x.shape[0]))  # noqa: UP032 - the point
    return x * 2


def with_percent(x):
    torch._assert(x.dim() == 2, "got %s" % (x.shape,))  # noqa: UP031 - the point
    return x * 2


def with_numbers(x):
    torch._assert(x.dim() == 2, "got %d rows" % x.shape[0])  # noqa: UP031 - the point
    torch._assert(x.dim() == 2, "%d of %s" % (x.shape[0], x.shape) + " and %i" % x.shape[1])  # noqa: UP031
    return x * 2


def added(x):
    torch._assert(x.dim() == 2, "got " + str(x.shape))
    return x * 2


def logged(x):
    logging.getLogger(__name__).debug(f"shape {x.shape}")
    logging.getLogger(__name__).debug("rows %d", x.shape[0])
    return x * 2


def warned(x):
    warnings.warn(f"slow for {tuple(x.shape)}", stacklevel=2)
    return x * 2


def printed(x):
    print(x.shape, f"{x.shape[0]}", int(x.shape[0]))
    return x * 2


def refused(x):
    if x.dim() != 2:
        raise ValueError(f"expected two dimensions, got {x.shape}")
    return x * 2


@pytest.mark.filterwarnings("ignore:slow for")
@pytest.mark.parametrize(
    "function", [asserted, formatted, with_percent, with_numbers, added, logged, warned, printed, refused]
)
def test_a_size_in_a_message_is_no_guard(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=(X,))

    assert {str(guard) for guard in graph_module.graph.guards} <= {"x.dim() == 2", "len(x.shape) == 2"}
    assert torch.equal(graph_module(torch.ones(5, 2)), torch.full((5, 2), 2.0))


def test_the_message_of_an_assertion_has_the_sizes_of_the_run():
    graph_module = fxcore.symbolic_trace(asserted, example_inputs=(X,))

    with pytest.raises(AssertionError) as caught:
        graph_module(torch.ones(5, 2, 2))
    assert str(caught.value) == "expected (n, c), got torch.Size([5, 2, 2]) with {  5} rows"


def test_a_number_in_the_message_of_an_assertion_is_that_of_the_run():
    graph_module = fxcore.symbolic_trace(with_numbers, example_inputs=(X,))
    first = next(node for node in graph_module.graph.nodes if node.target is torch._assert)

    with pytest.raises(AssertionError, match=r"^got 5 rows$"):
        graph_module(torch.ones(5, 2, 2))
    graph_module.graph.erase_node(first)
    graph_module.recompile()
    with pytest.raises(AssertionError, match=r"^5 of torch.Size\(\[5, 2, 2\]\) and 2$"):
        graph_module(torch.ones(5, 2, 2))


def kept_as_output(x):
    return x, f"shape {x.shape}"


def kept_in_a_tuple(x):
    return x, f"{tuple(x.shape)}"


def kept_as_key(x):
    return {f"rows_{x.shape[0]}": x}


def looked_up(x):
    return x * {"3": 2, "5": 7}[f"{x.shape[0]}"]


def compared(x):
    text = f"{x.shape[0]}"
    return x * 2 if text == "3" else x


def checked_by_the_user(x):
    return x * length_of(f"{x.shape[0]}")


def length_of(text):
    return len(text)


@pytest.mark.parametrize(
    "function", [kept_as_output, kept_in_a_tuple, kept_as_key, looked_up, compared, checked_by_the_user]
)
def test_a_size_in_a_text_that_is_used_is_a_guard(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=(X,))

    assert len(graph_module.graph.guards) > 0
    assert str(graph_module(X)) == str(function(X))
    with pytest.raises(ValueError, match="shape"):
        graph_module.check_guards(torch.rand(5, 4))


def test_a_number_from_contents_can_be_printed(capsys):
    def shown(x):
        print(f"mean {x.mean().item():.2f}")
        return x * 2

    graph_module = fxcore.symbolic_trace(shown, example_inputs=(torch.ones(3),))

    assert capsys.readouterr().out == "mean 1.00\n"
    assert [node.op for node in graph_module.graph.nodes if not node.users] == ["call_method", "output"]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, tokens):
        torch._assert(tokens.dim() == 3, f"expected (batch, length, width), got {tokens.shape}")
        return self.layer(tokens)


class Transformer(nn.Module):
    """Checks its sizes as the vision transformer of torchvision does."""

    def __init__(self):
        super().__init__()
        self.patches, self.encoder, self.size = nn.Conv2d(3, 8, 4, 4), Encoder(), 8

    def forward(self, images):
        n, _, height, width = images.shape
        torch._assert(height == self.size, f"wrong height, expected {self.size} but got {height}")
        torch._assert(width == self.size, f"wrong width, expected {self.size} but got {width}")
        return self.encoder(self.patches(images).reshape(n, 8, -1).permute(0, 2, 1)).mean(1)


def test_a_model_that_tells_its_sizes_in_messages_keeps_its_batch_free():
    graph_module = fxcore.symbolic_trace(Transformer(), example_inputs=(torch.rand(2, 3, 8, 8),), verify=True)

    assert [str(guard) for guard in graph_module.graph.guards] == ["len(images.shape) == 4"]
    assert graph_module.meta["free_sizes"].dimensions == {"0": (0,)}
    with pytest.raises(AssertionError, match="wrong height, expected 8 but got 12"):
        graph_module(torch.rand(2, 3, 12, 8))


def guards_in(graph_module):
    return [str(guard) for guard in graph_module.graph.guards]


def test_a_question_about_the_same_value_is_kept_once():
    graph_module = fxcore.symbolic_trace(
        lambda x: x * 2 if x.shape[0] == 3 and x.shape[0] == 3 else x, example_inputs=(X,)
    )

    assert guards_in(graph_module) == ["x.shape[0] == 3"]


def test_questions_about_items_of_a_list_are_all_kept():
    def doubled(tensors):
        return sum([(torch.relu(each) * (2 if torch.relu(each).shape[0] == 3 else 5)).sum() for each in tensors])

    graph_module = fxcore.symbolic_trace(doubled, example_inputs=([X, X],))

    assert guards_in(graph_module) == ["len(tensors) == 2", *["relu(...).shape[0] == 3"] * 2]
    with pytest.raises(GuardError):
        graph_module.check_guards([X, torch.rand(2, 4)])


def test_questions_of_a_layer_that_is_called_twice_are_all_kept():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, y):
            x, y = self.layer(x), self.layer(y)
            return x.sum() * (2 if x.shape[0] == 3 else 1) + y.sum() * (2 if y.shape[0] == 3 else 1)

    graph_module = fxcore.symbolic_trace(Shared(), example_inputs=(X, X.clone()))

    assert guards_in(graph_module) == ["self.layer(...).shape[0] == 3"] * 2
    with pytest.raises(GuardError):
        graph_module.check_guards(X, torch.rand(2, 4))
    with pytest.raises(GuardError):
        graph_module.check_guards(torch.rand(2, 4), X)


def test_questions_of_a_recursion_are_all_kept():
    def grown(x, depth):
        x = torch.cat([x, x])
        x = x * 2 if x.shape[0] > 5 else x
        return x if depth == 0 else grown(x, depth - 1)

    graph_module = fxcore.symbolic_trace(lambda x: grown(x, 2), example_inputs=(X,))

    assert guards_in(graph_module) == ["cat(...).shape[0] > 5"] * 3


def test_a_question_before_and_behind_a_change_of_shape_is_two_questions():
    def changed(x):
        x = x.clone()
        before = x.shape
        x.unsqueeze_(0)
        return x * 2 if before[0] == 3 and x.shape[0] == 1 else x

    graph_module = fxcore.symbolic_trace(changed, example_inputs=(X,))

    assert guards_in(graph_module) == ["clone(...).shape[0] == 3", "clone(...).shape[0] == 1"]
    assert torch.equal(graph_module(X), changed(X))
    names = [node.name for node in graph_module.graph.guards.graph.nodes]
    assert names.index("getattr_1") < names.index("getattr_2")


def test_assumptions_about_contents_before_and_behind_a_write_are_two_guards():
    def written(x):
        x = x.clone()
        first = fxcore.assume(x.sum() > 0)
        x.neg_()
        return x * 2 if first and not fxcore.assume(x.sum() > 0) else x

    graph_module = fxcore.symbolic_trace(written, example_inputs=(torch.ones(3),))

    assert len(graph_module.graph.guards) == 2


def test_random_numbers_are_never_equal():
    def drawn(x):
        return x * (2 if fxcore.assume(torch.rand(()) >= 0) and fxcore.assume(torch.rand(()) >= 0) else 1)

    assert len(fxcore.symbolic_trace(drawn, example_inputs=(X,)).graph.guards) == 2


def test_equal_reads_have_one_number_until_a_call_changes_what_they_read():
    graph = fxcore.Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n")
    reads = {
        "a size": lambda: graph.call_method("size", (x, 0)),
        "the shape": lambda: graph.call_function(getattr, (x, "shape")),
        "a number of the contents": lambda: graph.call_method("item", (x,)),
        "a sum of numbers": lambda: graph.call_function(operator.add, (n, 1)),
        "a tensor": lambda: graph.call_function(torch.relu, (x,)),
    }
    changes = [
        lambda: n,
        lambda: graph.call_function(torch.rand, ((),)),
        lambda: graph.call_method("add_", (x, 1)),
        lambda: graph.call_method("unsqueeze_", (x, 0)),
        lambda: graph.call_function(setattr, (x, "name", 1)),
        lambda: graph.call_function(operator.setitem, (x, 0, 1)),
        lambda: graph.call_method("append", (x, 1)),
    ]
    nodes = [[read() for read in reads.values()] for change in changes if change()]
    numbers = ValueNumbers(graph, {n, *(node for row in nodes for node in (row[0], row[2], row[3]))})

    found = {}
    for name, column in zip(reads, zip(*nodes, strict=True), strict=True):
        given = [numbers.number_of(node) for node in column]
        found[name] = [given.index(each) for each in given]
    assert found == {
        "a size": [0, 0, 0, 3, 4, 5, 6],
        "the shape": [0, 0, 0, 3, 4, 5, 6],
        "a number of the contents": [0, 0, 2, 3, 4, 5, 6],
        "a sum of numbers": [0] * 7,
        "a tensor": [0, 1, 2, 3, 4, 5, 6],
    }
    assert numbers.number_of(n) is n


class Recording:
    """Stands for a tracer, and returns what it is asked to record."""

    def create_node(self, *call):
        return call


def proxy_of(value, node):
    return SimpleNamespace(example=value, node=node)


def written(template, *nodes):
    return ("call_method", "format", (template, *nodes), {})


ROWS, COLUMNS = proxy_of(3, "rows"), proxy_of(4, "columns")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lambda made: "no value", "no value"),
        (lambda made: made.part(ROWS, "{}"), written("{}", "rows")),
        (
            lambda made: f"{made.part(ROWS, '{:}')} x {made.part(COLUMNS, '{:>2}')}!",
            written("{} x {:>2}!", "rows", "columns"),
        ),
        (lambda made: "{%d}" % made.number(ROWS), written("{{{}}}", "rows")),  # noqa: UP031 - the case of this test
        (lambda made: f"{made.number(ROWS)} {made.part(COLUMNS, '{!r}')}", written("{} {!r}", "rows", "columns")),
        # The text of another value came before, and no assertion took it.
        (lambda made: made.part(ROWS, "{}") and made.part(COLUMNS, "{}"), written("{}", "columns")),
        # Not the text that was written: reversed, cut, or without a part.
        (lambda made: (made.part(ROWS, "{}") + made.part(COLUMNS, "{}"))[::-1], "43"),
        (lambda made: f"{made.part(ROWS, '{}')} rows"[:2], "3"),
        (lambda made: made.part(ROWS, "{}").replace("3", "three"), "three"),
    ],
)
def test_a_node_writes_a_text_anew_if_it_is_the_text_that_was_made(text, expected):
    made = Messages(Recording())

    assert made.argument(text(made)) == expected
    assert made.argument("the next") == "the next"


def test_a_text_with_a_value_has_marks():
    made = Messages(Recording())

    assert not has_marks("3 rows")
    assert has_marks(f"{made.part(ROWS, '{}')} rows")
    assert has_marks("%d rows" % made.number(ROWS))  # noqa: UP031 - the case of this test


@pytest.mark.parametrize(
    ("function", "text", "value"),
    [
        (lambda x: x * float(x.shape[0]), "x.shape[0] == 3", 3),
        (lambda x: x * int(x.shape[0] / 2), "x.shape[0] / 2 == 1.5", 1.5),
        (lambda x: x * 2 if x.shape[0] else x, "bool(x.shape[0])", True),
        (lambda x: x * 2 if x.is_contiguous() else x, "x.is_contiguous()", True),
    ],
)
def test_a_guard_keeps_the_value_before_its_conversion(function, text, value):
    (guard,) = fxcore.symbolic_trace(function, example_inputs=X).graph.guards

    assert (str(guard), guard.value, type(guard.value), guard.is_assumed) == (text, value, type(value), False)


class TakesTheAnswersOfTheExample(fxcore.Tracer):
    def __init__(self):
        super().__init__()
        self.noted = []

    def note_data_read(self, guard, reason):
        self.noted.append((guard, reason))
        return True


def test_a_tracer_that_takes_an_answer_of_contents_sees_its_place():
    tracer = TakesTheAnswersOfTheExample()

    (guard,) = tracer.trace(lambda x: x * int(x.sum()), example_inputs=(torch.ones(3),)).guards

    ((noted, reason),) = tracer.noted
    assert (str(guard), guard.value, type(guard.value), guard.is_assumed) == ("x.sum() == 3", 3, int, True)
    assert (noted.value, noted.is_assumed) == (None, True)
    assert "int(x.sum())" in noted.source
    assert reason == "The value 'sum_1' (call_method sum) was turned into an int"


@pytest.mark.parametrize(("place", "is_taken"), [("here", True), ("here", False), ("elsewhere.py:3", True)])
def test_an_assumption_holds_at_its_place_alone(place, is_taken):
    def program(x):
        return x * int(x.sum())

    line = f"{__file__}:{program.__code__.co_firstlineno + 1}"
    assume = {line if place == "here" else place: is_taken}
    if place == "here" and is_taken:
        graph_module = fxcore.symbolic_trace(program, example_inputs=torch.ones(3), assume=assume)
        assert [guard.is_assumed for guard in graph_module.graph.guards] == [True]
    else:
        with pytest.raises(TraceError, match="was turned into an int"):
            fxcore.symbolic_trace(program, example_inputs=torch.ones(3), assume=assume)


class AsksForItsMode(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


class OfParts(nn.Module):
    def __init__(self, is_training, parts):
        super().__init__()
        self.parts = nn.Sequential(*[AsksForItsMode().train(each) for each in parts])
        self.training = is_training

    def forward(self, x):
        return self.parts(x) + (1 if self.training else 0)


@pytest.mark.parametrize(
    ("is_training", "parts", "guards"),
    [
        (True, (), ["self.training"]),
        (False, (), ["not self.training"]),
        (True, (True,), ["all([self.parts.0.training, self.training])"]),
        (False, (True,), ["self.parts.0.training", "not self.training"]),
        (True, (False,), ["self.training", "not self.parts.0.training"]),
        (False, (False, False), ["not any([self.parts.0.training, self.parts.1.training, self.training])"]),
        (
            False,
            (True, False, True),
            ["all([self.parts.0.training, self.parts.2.training])", "not any([self.parts.1.training, self.training])"],
        ),
    ],
)
def test_modules_in_one_mode_share_a_guard(is_training, parts, guards):
    graph = fxcore.symbolic_trace(OfParts(is_training, parts), example_inputs=X).graph

    assert [(str(guard), guard.is_assumed) for guard in graph.guards] == [(text, False) for text in guards]
    assert not graph.find_nodes(op="get_attr")


def asks_in_no_grad(x):
    with torch.no_grad():
        return x * 2 if torch.is_grad_enabled() else x


def asks_behind_a_switch(x):
    torch._C._set_grad_enabled(False)
    y = x * 2 if torch.is_grad_enabled() else x
    torch._C._set_grad_enabled(True)
    return y


def asks_for_autocast_in_no_grad(x):
    with torch.no_grad():
        return x * 2 if torch.is_autocast_enabled("cpu") else x


def asks_without_autocast(x):
    with torch.autocast("cpu", enabled=False):
        return x.neg() if torch.is_autocast_enabled("cpu") else x


def asks_for_grad_without_autocast(x):
    with torch.autocast("cpu", enabled=False):
        return x if torch.is_grad_enabled() else -x


def asks_for_inference_in_no_grad(x):
    with torch.no_grad():
        return x * 2 if torch.is_inference_mode_enabled() else x


@pytest.mark.parametrize(
    ("function", "guards"),
    [
        (lambda x: x * 2 if torch.is_grad_enabled() else x, ["is_grad_enabled()"]),
        (asks_in_no_grad, []),
        (asks_behind_a_switch, []),
        (asks_for_autocast_in_no_grad, ["not is_autocast_enabled('cpu')"]),
        (asks_without_autocast, []),
        (asks_for_grad_without_autocast, ["is_grad_enabled()"]),
        (lambda x: x * 2 if torch.is_inference_mode_enabled() else x, ["not is_inference_mode_enabled()"]),
        (asks_for_inference_in_no_grad, []),
    ],
)
def test_a_question_about_a_mode_is_a_guard_unless_the_code_holds_the_mode(function, guards):
    assert guards_of(function, X) == guards


class CountsCalls(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.number = number

    def forward(self, x):
        self.calls.add_(1)
        return x / self.number(self.calls)


@pytest.mark.parametrize("number", [int, float])
def test_a_number_of_a_tensor_is_asked_behind_the_write_to_the_tensor(number):
    model = CountsCalls(number)

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.ones(3))

    assert torch.equal(graph_module(torch.ones(3)), torch.ones(3))
    with pytest.raises(GuardError, match=rf"{number.__name__}\(self.calls\) == 1"):
        graph_module(torch.ones(3))
    assert model.calls == 1
