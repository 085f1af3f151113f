"""Every guard of Dynamo on the user's data is among `Capture.guards`: a change of the value compiles anew."""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import fixtures.dynamo  # noqa: F401  before any test: Dynamo cannot be imported a second time
from pytest_fxgraph import capture
from pytest_fxgraph.captures.capture import Guard, Recompile
from pytest_fxgraph.captures.guards import _value, guards_of, read_failure, recompiles_of
from pytest_fxgraph.captures.places import Place
from pytest_fxgraph.captures.torch_internals import GuardedValue, GuardFailure
from pytest_fxgraph.errors import InputsError

X = torch.ones(2, 2)
Y = torch.zeros(2, 2)
TABLE: dict[str, Any] = {"factor": 3, "steps": [1, 2]}
NUMBER = 4


@dataclasses.dataclass
class Config:
    depth: int = 2


@dataclasses.dataclass
class OtherConfig:
    depth: int = 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.items = [1, 2]
        self.d = {"a": 2.0}
        self.cfg = Config()
        self.mode = "add"
        self._hidden = 5
        self.nothing = None

    def forward(self, x, option=None):
        for item in self.items:
            x = x + item
        x = x * self.d["a"] * self.cfg.depth * TABLE["factor"] * NUMBER
        for step in TABLE["steps"]:
            x = x + step
        x = x + 1 if self.mode == "add" else x
        x = x + self._hidden if self.nothing is None else x
        return self.inner(x + option["z"] if option else x)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sizes = (1, 2)
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x) * self.sizes[1]


def set_global(name, value):
    globals()[name] = value


CHANGES = {
    "items[0] == 1": lambda net: net.items.__setitem__(0, 7),
    "len(items) == 2": lambda net: net.items.append(3),
    "d['a'] == 2.0": lambda net: net.d.update(a=3.0),
    "cfg.depth == 2": lambda net: setattr(net.cfg, "depth", 3),
    "mode == 'add'": lambda net: setattr(net, "mode", "keep"),
    "_hidden == 5": lambda net: setattr(net, "_hidden", 6),
    "global TABLE['factor'] == 3": lambda net: TABLE.update(factor=4),
    "global TABLE['steps'][1] == 2": lambda net: TABLE["steps"].__setitem__(1, 9),
    "len(global TABLE['steps']) == 2": lambda net: TABLE["steps"].append(3),
    "global NUMBER == 4": lambda net: set_global("NUMBER", 5),
    "inner.sizes == (1, 2)": lambda net: setattr(net.inner, "sizes", (1, 3)),
}


@pytest.fixture(autouse=True)
def _globals_as_they_were():
    table, number = {"factor": TABLE["factor"], "steps": [*TABLE["steps"]]}, NUMBER
    yield
    TABLE.clear()
    TABLE.update(table)
    set_global("NUMBER", number)


def texts(found):
    return [guard.text for guard in found.guards]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("guard", CHANGES)
def test_a_change_of_a_guarded_value_compiles_anew(guard):
    net = Net().eval()

    found = capture(net, (X,), calls=[((X,), {}, lambda: CHANGES[guard](net))])

    assert guard in texts(found)
    (recompile,) = found.recompiles
    assert recompile.call == 2
    assert recompile.guard.replace("self._modules['inner']", "inner").replace("self.", "") == guard.partition(" ==")[0]


def test_a_call_without_a_change_compiles_nothing():
    assert capture(Net().eval(), (X,), calls=[((X,), {}, lambda: None), ((X,), {})]).recompiles == []


def test_parts_of_arguments_are_guards():
    found = capture(Net().eval(), (X, {"z": 1}), calls=[((X, {"z": 2}), {})])

    assert {"option['z'] == 1", "len(option) == 1"} & set(texts(found))
    assert [each.obtained for each in found.recompiles] == ["2"]


def test_an_object_of_another_class_is_another_type():
    net = Net().eval()

    found = capture(net, (X,), calls=[((X,), {}, lambda: setattr(net, "cfg", OtherConfig()))])

    assert len(found.recompiles) == 1


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):
        x = x + self.calls
        self.calls += 1
        return x


def test_the_obtained_value_of_a_recompile_is_the_value_at_the_call():
    net = Counting()

    found = capture(net, (X,), calls=[((X,), {})])

    assert [(each.expected, each.obtained) for each in found.recompiles] == [("0", "1")]
    assert net.calls == 0


def test_attributes_that_a_call_changed_are_restored():
    net = Net().eval()

    capture(net, (X,), calls=[((X,), {}, lambda: setattr(net, "mode", "keep"))])

    assert net.mode == "add"


def test_guards_on_data_inside_are_no_part_of_a_golden():
    notes = capture(Net().eval(), (X,)).as_graph_module().meta["fxgraph_capture_notes"]

    assert "guard: mode == 'add'" in notes
    assert not any("len(" in note or "global" in note or "d['a']" in note for note in notes)


def made(kept):
    items = [1, 2]

    def enclosing(x, factor=2, *, more=3):
        return x * kept * items[0] * factor + more

    return enclosing


ENCLOSING = made(5)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.drop = nn.Dropout(0.5)
        self.acts = nn.ModuleList([nn.ReLU()])
        self.table = {"a": 1, "b": 2}

    def forward(self, x, y=None):
        x = ENCLOSING(self.drop(self.linear(x)))
        for act in self.acts:
            x = act(x)
        for value in self.table.values():
            x = x + value
        x = x + 1 if "z" in self.table else x
        x = x + 1 if hasattr(self, "extra") else x
        x = x + 1 if torch.backends.cudnn.enabled else x
        return x if y is None else x + y


class Tagged(torch.Tensor):
    pass


def set_cell(function, name, value):
    function.__closure__[function.__code__.co_freevars.index(name)].cell_contents = value


# A change between two calls with (X, Y), and a guard that it makes fail.
PERTURBED = {
    "torch.is_grad_enabled() == True": lambda net: torch.set_grad_enabled(False),
    "torch.get_default_dtype() == torch.float32": lambda net: torch.set_default_dtype(torch.float64),
    "torch.get_default_device() == cpu": lambda net: torch.set_default_device("meta"),
    "torch.are_deterministic_algorithms_enabled() == False": lambda net: torch.use_deterministic_algorithms(True),
    "torch.is_deterministic_algorithms_warn_only_enabled() == False": lambda net: torch.use_deterministic_algorithms(
        False, warn_only=True
    ),
    "torch.is_autocast_enabled('cpu') == False": lambda net: torch.set_autocast_enabled("cpu", True),
    "torch.is_autocast_cache_enabled() == True": lambda net: torch.set_autocast_cache_enabled(False),
    "torch.backends.cudnn.enabled == True": lambda net: setattr(torch.backends.cudnn, "enabled", False),
    "drop.training == False": lambda net: net.drop.train(),
    "drop.p == 0.5": lambda net: setattr(net.drop, "p", 0.25),
    "'forward' in vars(linear) == False": lambda net: setattr(net.linear, "forward", lambda x: x),
    "linear.weight == float32[2, 2] on cpu, requires grad": lambda net: net.linear.weight.requires_grad_(False),
    "linear.bias == float32[2] on cpu, requires grad": lambda net: setattr(net.linear, "bias", None),
    "type(acts.0) == torch.nn.modules.activation.ReLU": lambda net: net.acts.__setitem__(0, nn.Tanh()),
    "len(acts._modules) == 1": lambda net: net.acts.append(nn.Tanh()),
    "list(table) == ['a', 'b']": lambda net: net.table.update(a=net.table.pop("a")),
    "hasattr(self, 'extra') == False": lambda net: setattr(net, "extra", 1),
    "global ENCLOSING == the same function": lambda net: set_global("ENCLOSING", lambda x: x),
    "kept of global ENCLOSING == 5": lambda net: set_cell(ENCLOSING, "kept", 6),
    "items[0] of global ENCLOSING == 1": lambda net: ENCLOSING.__closure__[0].cell_contents.__setitem__(0, 7),
    "factor of global ENCLOSING == 2": lambda net: setattr(ENCLOSING, "__defaults__", (4,)),
    "more of global ENCLOSING == 3": lambda net: ENCLOSING.__kwdefaults__.update(more=4),
}


@pytest.fixture
def _settings_as_they_were():
    enclosing, enabled = ENCLOSING, torch.backends.cudnn.enabled
    set_global("ENCLOSING", made(5))
    yield
    set_global("ENCLOSING", enclosing)
    torch.backends.cudnn.enabled = enabled
    torch.set_default_device(None)


@pytest.mark.usefixtures("_settings_as_they_were")
@pytest.mark.parametrize(
    "guard",
    [pytest.param(guard, marks=[pytest.mark.slow] if place % 3 else []) for place, guard in enumerate(PERTURBED)],
)
def test_a_change_of_a_mode_a_module_or_a_function_is_a_guard(guard):
    net = Layers().eval()

    found = capture(net, (X, Y), calls=[((X, Y), {}, lambda: PERTURBED[guard](net))])

    assert guard in texts(found)
    assert [each.call for each in found.recompiles] == [2]


def test_a_recompile_tells_a_changed_mode_and_parameter_in_words():
    net = Layers().eval()

    changes = [lambda: torch.set_grad_enabled(False), lambda: net.linear.weight.requires_grad_(False)]
    found = [capture(net, (X,), calls=[((X,), {}, change)]).recompiles[0] for change in changes]

    assert [(each.kind, each.guard, each.expected, each.obtained) for each in found] == [
        ("mode", "torch's grad mode", "", ""),
        ("requires_grad", "self._modules['linear']._parameters['weight'] requires_grad", "True", "False"),
    ]


# The inputs of a second call behind a call with (X, Y).
OTHER_INPUTS = {
    "x == float32[2, 2] on cpu": [
        (X.double(), Y),
        (X.clone().requires_grad_(), Y),
        (torch.ones(1, 2), Y),
        (torch.ones(2, 2).as_subclass(Tagged), Y),
        (torch.ones(2, 2).t(), Y),
    ],
    "x and y are different tensors": [(X, X)],
}


@pytest.mark.parametrize(
    ("guard", "inputs"), [(name, each) for name, inputs in OTHER_INPUTS.items() for each in inputs]
)
def test_another_tensor_among_the_inputs_is_a_guard(guard, inputs):
    found = capture(lambda x, y: x * 2 + y, (X, Y), calls=[(inputs, {})])

    assert guard in texts(found)
    assert [each.call for each in found.recompiles] == [2]


@pytest.mark.usefixtures("_settings_as_they_were")
def test_the_dtype_of_autocast_is_a_guard_below_autocast():
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        change = partial(torch.set_autocast_dtype, "cpu", torch.float16)
        found = capture(Layers().eval(), (X,), calls=[((X,), {}, change)])

    assert "torch.get_autocast_dtype('cpu') == torch.bfloat16" in texts(found)
    assert [each.call for each in found.recompiles] == [2]


@pytest.mark.slow
def test_hooks_are_a_guard_where_dynamo_checks_them():
    net = Layers().eval()
    assert not any("hooks" in text for text in texts(capture(net, (X,))))

    hook = partial(net.linear.register_forward_hook, lambda *_: None)
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
        found = capture(net, (X,), calls=[((X,), {}, hook)])

    assert "hooks of linear == none" in texts(found)
    assert [each.call for each in found.recompiles] == [2]


def test_one_tensor_for_two_inputs_is_a_guard():
    found = capture(lambda x, y: x * 2 + y, (X, X), calls=[((X, Y), {})])

    assert "x is y" in texts(found)
    assert [each.call for each in found.recompiles] == [2]


def test_a_tensor_of_a_symbolic_size_or_of_a_class_is_told():
    found = capture(lambda x: x * 2, (X.as_subclass(Tagged),), dynamic_shapes={"x": {0: torch.export.Dim("n")}})

    (guard,) = [guard.text for guard in found.guards if guard.kind == "tensor"]
    assert re.fullmatch(r"x == float32\[s\d+, 2\] on cpu, a Tagged", guard)


@pytest.mark.parametrize("call", [((X,), {}, 3), ((X,), {}, None, None), (X, {}, print)])
def test_a_call_with_a_third_part_that_is_no_function_is_refused(call):
    with pytest.raises(InputsError, match=r"calls: expected \(args, kwargs\).* a function as third part"):
        capture(Net(), (X,), calls=[call])


@pytest.mark.parametrize(
    ("path", "guard"),
    [
        ("._modules['inner'].sizes", Guard("value", "inner.sizes", "1")),
        (".cfg.depth", Guard("item", "cfg.depth", "1")),
        (".items[0]", Guard("item", "items[0]", "1")),
        ("._modules['inner']._modules['linear'].in_features", Guard("module", "inner.linear.in_features", "1")),
        ("._modules['inner']", Guard("module", "inner", "1")),
    ],
)
def test_guards_tell_attributes_of_the_user_from_their_parts_and_from_modules(path, guard):
    assert guards_of([GuardedValue("value", f"L['self']{path}", "1")], Net(), "self") == [guard]


@pytest.mark.parametrize(
    ("expression", "value", "shown"),
    [
        ("x", "a" * 78, repr("a" * 78)),
        ("x", "a" * 79, "str"),  # 81 characters with its quotes
        ("x['z'][1]", {"z": [1, 2]}, "2"),
        ("len(x)", [1, 2, 3], "3"),
        ("x", object(), "object"),
        ("x", X, "Tensor"),
        ("x", nn.ReLU(), "ReLU"),
        ("x.__class__()", 1, ""),
        ("y", 1, ""),
    ],
)
def test_the_value_of_a_part_of_an_argument_is_shown_if_it_is_short_and_plain(expression, value, shown):
    assert _value(expression, {"x": value}) == shown


PLACE = Place("net.py", 3, "forward", "x = x * 2")


def code_of(name: str) -> Any:
    return (lambda: None).__code__.replace(co_name=name)


@pytest.mark.parametrize(
    ("text", "kind", "guard", "expected", "obtained"),
    [
        ("tensor 'x' size mismatch at index 1. expected 2, actual 3", "size", "x size[1]", "2", "3"),
        ("tensor 'x' dtype mismatch. expected Float, actual Double", "dtype", "x dtype", "Float", "Double"),
        ("tensor 'x' rank mismatch. expected 2, but got 3", "rank", "x rank", "2", "3"),
        ("tensor 'x' dispatch key set mismatch. expected A", "dispatch key set", "x dispatch key set", "A", ""),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=0", "requires_grad", "x requires_grad", "False",
         "True"),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=1", "requires_grad", "x requires_grad", "True",
         "False"),
        ("tensor 'w' size mismatch at index 0. expected 2, actual 3. Guard failed on a parameter, mark it\nso.", "size",
         "w size[0]", "2", "3"),
        ("GLOBAL_STATE changed: grad_mode ", "mode", "torch's grad mode", "", ""),
        ("L['k'] is None", "value", "k", "None", "4"),
        ("L['other'] is None", "value", "other", "None", ""),
        ("len(L['items']) != 3", "length", "len(items)", "3", "2"),
        ("list(dict.keys(L['table']))[1] == 'c'", "key", "key 1 of table", "'c'", "'b'"),
        ("list(L['table'].keys())[0] == 'c'", "key", "key 0 of table", "'c'", "'a'"),
        ("list(dict.keys(L['table']))[2] == 'c'", "key", "key 2 of table", "'c'", ""),
        ("list(dict.keys(L['k']))[0] == 'c'", "key", "key 0 of k", "'c'", ""),
        ("___check_obj_id(L['k'], <id of None>)", "value", "k", "None", "4"),
        ("___check_obj_id(L['k'], <id of False>)", "value", "k", "False", "4"),
        ("___check_obj_id(L['k'], <id of True>)", "value", "k", "True", "4"),
        ("___check_obj_id(L['k'], 17)", "identity", "k", "the same object", "4"),
        ("___check_type_id(L['k'], 17)", "type", "k", "the same type", "int"),
        ("___check_type_id(L['other'], 17)", "type", "other", "the same type", ""),
        ("not L['items']", "length", "len(items)", "0", "2"),
        ("L['k'] == 3", "value", "k", "3", "4"),
        ("len(L['items']) == 3", "length", "len(items)", "3", "2"),
        ("L['items'][1] == 3", "value", "items[1]", "3", "6"),
        ("G['NUMBER'] == 3", "value", "global NUMBER", "3", ""),
        ("L['x'].size()[0] == 3", "sizes", "x.size()[0] == 3", "", ""),
        ("Mod(s0, 2) == 0", "sizes", "Mod(s0, 2) == 0", "", ""),
        ("2 <= L['x'].shape[0]", "sizes", "2 <= x.shape[0]", "", ""),
        ("hasattr(L['x'], 'y')", "other", "hasattr(x, 'y')", "", ""),
        ("L['k'] == 3  # x = x * k  # net.py:4 in forward", "value", "k", "3", "4"),
        ("L['k'] == 3    HINT: mark it", "value", "k", "3", "4"),
        ("L['k'] == 3\nUser stack trace:\n  L['k'] == 5", "value", "k", "3", "4"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", ["", "0/12: "])
def test_a_failed_guard_is_read_with_the_value_of_the_call(text, kind, guard, expected, obtained, number):
    arguments = {"k": 4, "items": [5, 6], "table": {"a": 1, "b": 2}}
    # The id of a test must be the same in every process.
    for value in (True, False, None):
        text = text.replace(f"<id of {value}>", str(id(value)))

    found = read_failure(GuardFailure(code_of("forward"), number + text), 2, arguments, PLACE)

    assert found == Recompile(2, kind, guard, expected, obtained, PLACE, False)


def test_a_function_behind_a_break_has_other_arguments_than_the_call():
    failure = GuardFailure(code_of("torch_dynamo_resume_in_forward_at_3"), "0/1: L['k'] == 3")

    assert read_failure(failure, 2, {"k": 4}, PLACE) == Recompile(2, "value", "k", "3", "", PLACE, True)


def test_of_several_versions_of_a_function_the_newest_tells_the_change():
    first, second = code_of("first"), code_of("second")
    texts = [(first, "0/1: "), (second, "1/10: "), (first, "0/2: "), (second, "1/9: "), (first, "")]
    found = [(GuardFailure(code, text), Recompile(2, "value", text, "", "", PLACE)) for code, text in texts]

    assert [each.guard for each in recompiles_of(found)] == ["0/2: ", "1/10: "]
    assert recompiles_of([]) == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (("mode", "torch.is_grad_enabled()", "True"), ["torch.is_grad_enabled() == True"]),
        (("value", "L['k']", "2"), ["k == 2"]),
        (("value", "L['items'][0]", "2"), ["items[0] == 2"]),
        (("length", "L['items']", "2"), ["len(items) == 2"]),
        (("empty", "L['items']", "0"), ["len(items) == 0"]),
        (("keys", "L['table']", "['a']"), ["list(table) == ['a']"]),
        (("key", "L['table']", "'a'"), ["key of table == 'a'"]),
        (("type", "L['k']", "my.Config"), ["type(k) == my.Config"]),
        (("type", "L['k']", "dict"), []),
        (("type", "L['k']", "collections.OrderedDict"), []),
        (("type", "L['k']", "torch.Tensor"), []),
        (("type", "L['k']", "torch.nn.modules.activation.ReLU"), []),
        (("type", "L['self']._modules['act']", "torch.nn.modules.activation.ReLU"),
         ["type(act) == torch.nn.modules.activation.ReLU"]),
        (("type", "L['self']._modules['act']", "dict"), []),
        (("hooks", "L['self']._modules['act']._forward_hooks", "none"), ["hooks of act == none"]),
        (("hooks", "L['self']._modules['act']._backward_pre_hooks", "none"), ["hooks of act == none"]),
        (("no key", "L['table']", "'z'"), ["'z' in table == False"]),
        (("attribute", "L['k']", "extra"), ["hasattr(k, 'extra') == True"]),
        (("no attribute", "L['self']", "extra"), ["hasattr(self, 'extra') == False"]),
        (("not set", "L['self']._modules['act']", "forward"), ["'forward' in vars(act) == False"]),
        (("value", "L['self']", "1"), []),
        (("type", "L['self']", "my.Net"), []),
        (("value", "L['___stack0']", "1"), []),
        (("value", "the stack", "1"), []),
        (("value", "G['NUMBER']", "4"), ["global NUMBER == 4"]),
        (("value", "G['__builtins_dict___1']['len']", "f"), []),
        (("value", "G['__import_torch']", "torch"), []),
        (("value", "G['__import_torch'].backends.cudnn.enabled", "True"), ["torch.backends.cudnn.enabled == True"]),
        (("value", "G['__import_my_dot_torch'].flags.on", "True"), ["torch.flags.on == True"]),
        (("identity", "G['torch'].nn.functional.relu", "the same function"), []),
        (("value", "G['torch'].backends.cudnn.enabled", "True"), ["torch.backends.cudnn.enabled == True"]),
        (("value", "G['torch']", "torch"), []),
        (("value", "G['__import_helpers_dot_sizes'].WIDTH", "4"), ["global helpers.sizes.WIDTH == 4"]),
        (("value", "G['helpers'].torch.on", "True"), ["global helpers.torch.on == True"]),
        (("value", "G['ENCLOSING'].__closure__[1].cell_contents", "5"), ["kept of global ENCLOSING == 5"]),
        (("value", "G['ENCLOSING'].__closure__[0].cell_contents[1]", "2"), ["items[1] of global ENCLOSING == 2"]),
        (("value", "G['ENCLOSING'].__defaults__[0]", "2"), ["factor of global ENCLOSING == 2"]),
        (("value", "G['ENCLOSING'].__kwdefaults__['more']", "3"), ["more of global ENCLOSING == 3"]),
        (("value", "G['ENCLOSING'].calls", "3"), ["global ENCLOSING.calls == 3"]),
        (("value", "G['TABLE'].__defaults__[0]", "3"), ["global TABLE.__defaults__[0] == 3"]),
        (("value", "L['self']._modules['inner']._modules['linear']._parameters['weight']", "w"),
         ["inner.linear.weight == w"]),
        (("value", "L['self'].training", "False"), ["training == False"]),
        (("value", "L['self']._forward_hooks['a']", "1"), ["_forward_hooks['a'] == 1"]),
        (("value", "L['self']._hidden", "5"), ["_hidden == 5"]),
    ],
)  # fmt: skip
def test_a_guarded_value_has_the_words_of_users(value, told):
    net = Net()
    net.act = nn.ReLU()

    assert [guard.text for guard in guards_of([GuardedValue(*value)], net, "self")] == told


def test_a_function_has_arguments_and_no_parts_of_a_model():
    found = guards_of([GuardedValue("value", "L['self'].depth", "1")], len, "self")

    assert found == [Guard("item", "self.depth", "1")]


def test_tensors_that_are_no_alias_are_different_tensors():
    tensors = [GuardedValue("tensor", f"L['{name}']", "float32[2]") for name in "xyz"]
    alias = GuardedValue("alias", "L['y']", "L['x']")

    def different(*values):
        return [guard.name for guard in guards_of(values, len, "self") if guard.kind == "alias"]

    assert different(*tensors) == ["x and y and z are different tensors"]
    assert different(*tensors, alias) == ["x is y"]
    assert different(*tensors, GuardedValue("tensor", "L['w']", "float32[2]"), alias) == [
        "x is y",
        "z and w are different tensors",
    ]
    assert different(tensors[0]) == different() == []
    assert different(tensors[0], GuardedValue("tensor", "L['items'][0]", "float32[2]")) == []
    assert different(GuardedValue("alias", "L['y']", "L['___stack']")) == []
    assert different(GuardedValue("alias", "L['y']", "G['torch'].tensor")) == []
    assert different(tensors[0], GuardedValue("alias", "L['___stack']", "L['x']"), tensors[1]) == [
        "x and y are different tensors"
    ]


def test_a_mode_does_not_end_the_guards():
    values = [("mode", "m", "1"), ("value", "L['___a']", "1"), ("no key", "L['t']", "'z'"), ("value", "L['k']", "2")]
    values[1:1] = [("alias", "L['y']", "L['x']")]

    found = guards_of([GuardedValue(*value) for value in values], len, "")

    assert [guard.text for guard in found] == ["m == 1", "x is y", "'z' in t == False", "k == 2"]
    assert [guard.kind for guard in found] == ["mode", "alias", "key", "value"]


@pytest.mark.parametrize(
    ("expression", "value", "shown"),
    [
        ("x", None, "None"),
        ("x", print, "<built-in function print>"),
        ("x", test_a_mode_does_not_end_the_guards, "function"),
        ("len(x)", 3, ""),
        ("x.real", 3, "3"),
        ("x['a b'].imag", {"a b": 3}, "0"),
        ("x[y]", [1], ""),
    ],
)
def test_only_parts_of_arguments_are_read(expression, value, shown):
    assert _value(expression, {"x": value, "y": 0}) == shown
