"""The judgement on the graph of a case: each call against the eager model."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from torch import Tensor, nn

import fxcore
from fxcore.state.snapshot import globals_kept
from tests.guided_cases.case import Call, Case

RIGHT = "right"
REFUSED = "refused"
UNTRACED = "untraced"  # the trace ends in an FxError
WRONG = "wrong"
LENIENT = "lenient"  # eager raises, the graph answers
FOREIGN = "foreign error"
OWN_EXAMPLE = "refuses its own example"


@dataclass(frozen=True)
class Verdict:
    """The judgement on one call, or on the trace."""

    kind: str
    moment: str  # "trace", "example", "call 1", ...
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.moment}: {self.kind}{': ' if self.reason else ''}{self.reason}"


@dataclass
class Answer:
    """The result of one call, and the state that it leaves behind."""

    result: Any = None
    error: BaseException | None = None
    args: Any = None
    shared: list[list[int]] = field(default_factory=list)
    gradients: list[Tensor | None] | None = None


def seed() -> None:
    torch.manual_seed(11)
    random.seed(11)
    numpy.random.seed(11)


def generators() -> tuple[Any, ...]:
    numbers = numpy.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), numbers[1].tolist(), numbers[2]  # type: ignore[index, call-overload]


def difference(expected: Any, obtained: Any, path: str = "result") -> str | None:
    """Return the first difference of two values in words, or None."""
    if type(expected) is not type(obtained):
        return f"{path} is of {type(obtained).__name__}, expected {type(expected).__name__}"
    if isinstance(expected, Tensor):
        return tensor_difference(expected, obtained, path)
    if isinstance(expected, Mapping):
        if list(expected) != list(obtained):
            return f"{path} has the keys {list(obtained)}, expected {list(expected)}"
        pairs = [(f"{path}[{key!r}]", value, obtained[key]) for key, value in expected.items()]
        return first(difference(one, other, place) for place, one, other in pairs)
    if dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        return difference(vars(expected), vars(obtained), path)
    if isinstance(expected, numpy.ndarray):
        return None if numpy.array_equal(expected, obtained) else f"{path} has other numbers"
    if isinstance(expected, (list, tuple, collections.deque)):
        if len(expected) != len(obtained):
            return f"{path} has {len(obtained)} elements, expected {len(expected)}"
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(expected, obtained, strict=True))]
        return first(difference(one, other, place) for place, one, other in pairs)
    if isinstance(expected, float) and expected != expected:
        return None if obtained != obtained else f"{path} is {obtained!r}, expected nan"
    plain = isinstance(expected, (int, float, complex, str, bytes, bool, set, torch.dtype, torch.device, type(None)))
    return f"{path} is {obtained!r}, expected {expected!r}" if plain and expected != obtained else None


def first(found: Iterator[str | None]) -> str | None:
    return next((each for each in found if each), None)


def tensor_difference(expected: Tensor, obtained: Tensor, path: str) -> str | None:
    for name in ("dtype", "shape", "requires_grad"):
        one, other = getattr(expected, name), getattr(obtained, name)
        if one != other:
            return f"{path}.{name} is {other}, expected {one}"
    one, other = (each.detach().to_dense() if each.is_sparse else each.detach() for each in (expected, obtained))
    close = torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True) if one.numel() else True
    return None if close else f"{path} has other numbers: {short(other)}, expected {short(one)}"


def short(value: Tensor) -> str:
    return str([round(each, 3) if isinstance(each, float) else each for each in value.flatten()[:4].tolist()])


def is_proxy(value: Any) -> bool:
    """Return whether a trace left a value behind; a proxy is a Tensor or an int by its class."""
    return type(value).__module__.startswith("fxcore.")


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) and not is_proxy(value)


def tensors_in(value: Any) -> list[Tensor]:
    if is_tensor(value):
        return [value]
    if isinstance(value, Mapping):
        return [each for item in value.values() for each in tensors_in(item)]
    if isinstance(value, (list, tuple, set)):
        return [each for item in value for each in tensors_in(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tensors_in(vars(value))
    return []


def sharing(result: Any, inputs: Any) -> list[list[int]]:
    """Return for each tensor of the result the numbers of the input tensors that share its memory."""
    places = [memory(each) for each in tensors_in(inputs)]
    return [[i for i, place in enumerate(places) if place and place == memory(each)] for each in tensors_in(result)]


def memory(value: Tensor) -> int:
    """Return the address of a tensor's memory, 0 if it has none of its own."""
    return value.untyped_storage().data_ptr() if value.layout == torch.strided and value.numel() else 0


def gradients(parameters: list[Tensor], answer: Answer) -> list[Tensor | None] | None:
    """Return the gradients of the results' sum by every parameter and input, or None where there is none."""
    total = [each.sum() for each in tensors_in(answer.result) if each.requires_grad and each.is_floating_point()]
    leaves = [*parameters, *tensors_in(answer.args)]
    leaves = [each for each in leaves if each.requires_grad and each.is_leaf]
    if not total or not leaves:
        return None
    with contextlib.suppress(RuntimeError):
        return list(torch.autograd.grad(sum(total), leaves, retain_graph=True, allow_unused=True))  # type: ignore[arg-type]
    return None


def answer_of(target: Any, owner: Any, one: Call, names: Collection[str] = ()) -> Answer:
    """Call `target` and note everything that a user could see of it; `owner` has the parameters of these names."""
    parameters = [each for name, each in state_of(owner).items() if name in names and each.requires_grad]
    answer = Answer(args=(list(one.args), one.kwargs))
    seed()
    with one.under():
        try:
            answer.result = target(*one.args, **one.kwargs)
        except Exception as error:
            answer.error = error
            return answer
    answer.shared = sharing(answer.result, answer.args)
    answer.gradients = gradients(parameters, answer)
    return answer


def state_of(model: Any) -> dict[str, Any]:
    if not isinstance(model, nn.Module):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def attributes_of(model: Any) -> dict[str, Any]:
    """Return the plain attributes of all modules: everything that is neither state nor machinery of nn.Module."""
    if not isinstance(model, nn.Module):
        return {}
    own = set(vars(nn.Module()))
    return {
        f"{path}.{name}": value
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if name not in own
    }


def world_of(model: Any, call_: Call) -> Any:
    """Return a copy of everything that a trace or a refused call must leave alone."""
    identities = {name: id(value) for name, value in state_of(model).items()}
    modes = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_inference_mode_enabled())
    training_flags = [each.training for each in model.modules()] if isinstance(model, nn.Module) else []
    hooks = [len(each._forward_hooks) for each in model.modules()] if isinstance(model, nn.Module) else []
    state = {name: value.detach().clone() for name, value in state_of(model).items()}
    inputs = plain_copy((list(call_.args), call_.kwargs))
    return generators(), modes, training_flags, hooks, identities, state, plain_copy(attributes_of(model)), inputs


WORLD = (
    "random generators",
    "modes",
    "training flags",
    "hooks",
    "identities of state",
    "state",
    "attributes",
    "inputs",
)


def plain_copy(value: Any) -> Any:
    """Copy containers and tensors; leave everything else, such as generators and objects, as it is."""
    if is_proxy(value):
        return f"a {type(value).__name__}"
    if is_tensor(value):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple, set):
        return type(value)(map(plain_copy, value))
    if type(value) is dict:
        return {plain_copy(key): plain_copy(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {each.name: plain_copy(getattr(value, each.name)) for each in dataclasses.fields(value) if each.init}
        return dataclasses.replace(value, **changed)
    return value


def changed_world(before: Any, after: Any) -> str | None:
    return first(difference(one, other, name) for name, one, other in zip(WORLD, before, after, strict=True))


def answers_differ(expected: Answer, obtained: Answer) -> str | None:
    return (
        difference(expected.result, obtained.result)
        or difference(expected.args, obtained.args, "inputs after the call")
        or difference(expected.shared, obtained.shared, "inputs that share memory with the results")
        or difference(expected.gradients, obtained.gradients, "gradients")
    )


def states_differ(eager: Any, graph_module: Any, model: Any, attributes_before: Any) -> str | None:
    """Compare the state after a call; plain attributes may stay if a note of the graph says that it assigns none."""
    obtained = {**state_of(model), **state_of(graph_module)}
    for name, value in state_of(eager).items():
        if name in obtained and (found := difference(value.data, obtained[name].data, f"state {name}")):
            return found
    if graph_module.graph.guards.notes:
        return None
    written = difference(attributes_before, plain_copy(attributes_of(eager)), "attribute")
    kept = {**attributes_of(model), **attributes_of(graph_module)}
    lost = written and difference(attributes_of(eager), {name: kept.get(name) for name in attributes_of(eager)}, "attr")
    return f"no note tells of a lost attribute: {lost}" if lost else None


def prepare(one: Call, model: Any, graph_module: Any = None) -> None:
    """Bring a model into the state of the call, and its graph module, which shares the tensors but no attributes."""
    if one.train is not None:
        for each in filter(None, (model, graph_module)):
            each.train(one.train)
    if one.before is None:
        return
    before = plain_copy(attributes_of(model)), [each.training for each in model.modules()]
    one.before(model)
    for place, value in attributes_of(model).items():
        if graph_module is not None and (place not in before[0] or difference(before[0][place], value)):
            path, _, name = place.rpartition(".")
            with contextlib.suppress(AttributeError):
                setattr(graph_module.get_submodule(path), name, value)
    for (path, module), was in zip(model.named_modules(), before[1], strict=True):
        if graph_module is not None and module.training is not was:
            with contextlib.suppress(AttributeError):
                graph_module.get_submodule(path).training = module.training


def short_error(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {' / '.join(lines[:3])[:400]}"


def others_that_answer(graph_module: Any, one: Call) -> str:
    """Return the name of another way to run a graph that takes a call which the graph refuses."""
    ways: dict[str, Any] = {"a deep copy": copy.deepcopy(graph_module)}
    if not one.kwargs:
        ways["Interpreter"] = fxcore.Interpreter(graph_module).run
    for name, way in ways.items():
        with one.under():
            try:
                way(*one.args, **one.kwargs)
            except fxcore.FxError:
                continue
            except Exception as error:
                return f"{name} ({short_error(error)})"
            return name
    return ""


def judge_call(moment: str, calls: tuple[Call, Call], eager: Any, model: Any, graph_module: Any) -> Verdict:
    """Call the graph, and the eager model unless the graph refuses; a refused call moves neither's state."""
    prepare(calls[0], eager)
    prepare(calls[1], model, graph_module)
    attributes_before = plain_copy(attributes_of(eager))
    seed()
    before = world_of(model, calls[1]), plain_copy(state_of(graph_module))
    with calls[1].under():
        supported = graph_module.supports(*calls[1].args, **calls[1].kwargs)
    names = before[0][WORLD.index("state")].keys()
    obtained = answer_of(graph_module, model, calls[1], names)
    if isinstance(obtained.error, fxcore.FxError):
        answering = others_that_answer(graph_module, calls[1])
        if supported or answering:
            return Verdict(WRONG, moment, f"refused, though {answering or 'supports()'} takes the call")
        now = world_of(model, calls[1]), plain_copy(state_of(graph_module))
        changed = changed_world(before[0], now[0]) or difference(before[1], now[1], "state of the graph module")
        if changed:
            return Verdict(WRONG, moment, f"a refused call changed {changed}")
        return Verdict(REFUSED, moment, short_error(obtained.error))
    expected = answer_of(eager, eager, calls[0], names)
    if supported is False and obtained.error is None:
        return Verdict(WRONG, moment, "answered, though supports() says that the call is refused")
    if obtained.error is not None:
        if expected.error is not None:
            return Verdict(RIGHT, moment, "both raise")
        return Verdict(FOREIGN, moment, short_error(obtained.error))
    if expected.error is not None:
        return Verdict(LENIENT, moment, f"eager: {short_error(expected.error)}")
    found = answers_differ(expected, obtained) or states_differ(eager, graph_module, model, attributes_before)
    return Verdict(WRONG, moment, found) if found else Verdict(RIGHT, moment)


@contextlib.contextmanager
def left(case: Case) -> Iterator[None]:
    """Put back what the model writes into globals, before and after."""
    case.leave()
    try:
        yield
    finally:
        case.leave()


def trace(case: Case, model: Any, example: Call) -> tuple[Any, Verdict | None]:
    """Trace the model; return the graph module, and a verdict if the trace failed or left a trace."""
    prepare(example, model)
    seed()
    before = world_of(model, example), case.watch()
    verdict = graph_module = None
    try:
        with example.under():
            graph_module = fxcore.symbolic_trace(model, example_inputs=example.args, example_kwargs=example.kwargs)
    except fxcore.FxError as error:
        verdict = Verdict(UNTRACED, "trace", short_error(error))
    except Exception as error:
        verdict = Verdict(FOREIGN, "trace", short_error(error))
    for name, value in state_of(graph_module).items():
        if not is_tensor(value):
            verdict = Verdict(WRONG, "trace", f"a {type(value).__name__} is the state {name} of the graph module")
    changed = changed_world(before[0], world_of(model, example)) or difference(before[1], case.watch(), "globals")
    return graph_module, Verdict(WRONG, "trace", f"the trace changed {changed}") if changed else verdict


def judge(case: Case) -> list[Verdict]:
    """Trace a case with its first call and judge the trace and every call, the first included."""
    with left(case):
        torch.manual_seed(3)
        model = case.model()
        if isinstance(model, nn.Module):
            model.eval()
        eager = copy.deepcopy(model)
        own, expected, obtained = case.calls(), case.calls(), case.calls()
        graph_module, verdict = trace(case, model, own[0])
        verdicts = [verdict] if verdict else []
        if graph_module is None:
            eager_fails = answer_of(eager, eager, expected[0]).error
            if verdict is not None and eager_fails is not None:
                return [Verdict(FOREIGN, "case", f"eager fails on the example: {short_error(eager_fails)}")]
            return verdicts
        for i, pair in enumerate(zip(expected, obtained, strict=True)):
            moment = f"call {i}" if i else "example"
            with globals_kept(generators=False) as before:
                verdict = judge_call(moment, pair, eager, model, graph_module)
                left_changed = list(before.changed_readings())
            if left_changed:
                verdict = Verdict(WRONG, moment, f"the call left other settings of torch: {left_changed[0].path}")
            if i == 0 and verdict.kind == REFUSED:
                verdict = dataclasses.replace(verdict, kind=OWN_EXAMPLE)
            verdicts.append(verdict)
        return verdicts


BAD = (WRONG, FOREIGN, OWN_EXAMPLE)


def faults(verdicts: list[Verdict]) -> list[Verdict]:
    return [each for each in verdicts if each.kind in BAD]
