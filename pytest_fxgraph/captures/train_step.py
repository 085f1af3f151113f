"""A training step as a module: forward, loss, backward and optimizer; its state is the model's and the optimizer's."""

from __future__ import annotations

import contextlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pytest_fxgraph.captures.state_names import StateHolder, placed
from pytest_fxgraph.captures.torch_internals import part_of_torch
from pytest_fxgraph.errors import CaptureError, ChoiceError, SubjectError

PHASE = "phase"  # key of `node.meta` in the graph of a step: the part of the step that a node belongs to
# The parts of a step, in the order in which they run; the nodes of a step's graph are marked with them.
PHASES = ("forward", "loss", "backward", "optimizer", "update")
_Phase = Callable[[str], contextlib.AbstractContextManager[object]]


class Parts(NamedTuple):
    """What a step is made of."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[..., torch.Tensor] | None
    steps: int  # that a check runs
    modes: list[tuple[nn.Module, bool]]  # of all modules of the model: whether they train


class TrainStep(nn.Module):
    """A training step of a model. A call takes the inputs of the model and of the loss, and returns the loss.

    `optimizer` is a function of the model's parameters, such as `lambda parameters: torch.optim.SGD(parameters, lr=1)`,
    or an optimizer over them. `loss` is a function or module of the model's outputs; its further required arguments
    are the last inputs of the step. By default it is the sum of all floating outputs. Hooks of the optimizer are part
    of the step. The modules run in the mode that they have now. A check of a graph of the step runs `steps` steps.

    Adam and its relatives compute on their count of steps in single precision, as under torch.compile.

    The step shares all tensors with model and optimizer. The optimizer's state has the paths
    `optimizer.<path of the parameter>.<name>`. An optimizer without state gets the state of before its first step; a
    momentum of SGD begins with zeros. Raises SubjectError for an optimizer whose step is no function of tensors.
    """

    parts_of_step: Parts  # one attribute, because the others are the model's: many models have a part named `model`

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer],
        loss: Callable[..., torch.Tensor] | None = None,
        *,
        steps: int = 3,
    ) -> None:
        super().__init__()
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ChoiceError(f"steps must be a whole number of at least 1, got {steps!r}")
        made = optimizer if isinstance(optimizer, torch.optim.Optimizer) else optimizer(model.parameters())
        # Not registered: the state has the paths that it has in the model.
        modes = [(module, module.training) for module in model.modules()]
        self.__dict__["parts_of_step"] = Parts(model, made, loss, steps, modes)
        self.__dict__["train"] = _refuse_mode  # in the instance, where checks look for a module with one mode
        self._parameters, self._buffers = model._parameters, model._buffers
        self._non_persistent_buffers_set = model._non_persistent_buffers_set
        self._modules = dict(model._modules)
        if isinstance(loss, nn.Module):
            self._modules[self._free_name("loss")] = loss
        names = {id(parameter): name for name, parameter in self.named_parameters()}
        if not made.state:
            _make_state(made)
        holder = StateHolder()
        for path, tensor in _optimizer_tensors(made, names):
            placed(holder, path, tensor)
        self._modules[self._free_name("optimizer")] = holder

    def _free_name(self, name: str) -> str:
        return self._free_name(f"{name}_") if hasattr(self.parts_of_step.model, name) else name

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Run one step and return its loss."""
        return self.run_phases(args, kwargs, lambda name: contextlib.nullcontext())

    def run_phases(self, args: Sequence[Any], kwargs: Mapping[str, Any], phase: _Phase) -> torch.Tensor:
        """Run one step, each part inside of the context that `phase` makes of its name. No gradients stay."""
        model, optimizer, loss_function, *_ = self.parts_of_step
        of_model, of_loss = self._parted(args, kwargs)
        parameters = list(self.parameters())
        with torch.inference_mode(False), torch.enable_grad(), self._modes_of_step():
            _without_gradients(parameters)
            with phase("forward"):
                outputs = model(*of_model[0], **of_model[1])
            with phase("loss"):
                loss = summed(outputs) if loss_function is None else loss_function(outputs, *of_loss[0], **of_loss[1])
            with phase("backward"):
                torch.autograd.backward(loss)
            with phase("optimizer"), _as_compiled(optimizer):
                optimizer.step()
            _without_gradients(parameters)
            return loss.detach()

    def input_names(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        """Return a name for each leaf of a step's arguments: of the model's parameter or the loss's, with its path."""
        model, _, loss, *_ = self.parts_of_step
        of_model, of_loss = self._parted(args, kwargs)
        named = {**_bound(model.forward, *of_model)}
        if loss is not None:
            function = loss.forward if isinstance(loss, nn.Module) else loss
            named |= dict([*_bound(function, (None, *of_loss[0]), of_loss[1]).items()][1:])
        places: dict[int, str] = {}
        for name, value in named.items():
            for path, leaf in pytree.tree_flatten_with_path(value)[0]:
                places.setdefault(id(leaf), f"{name}{pytree.keystr(path)}")
        leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
        return [places.get(id(leaf), f"input_{number}") for number, leaf in enumerate(leaves)]

    def _parted(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Part the arguments into the model's and the loss's, positional and by name each."""
        loss = self.parts_of_step.loss
        names = [] if loss is None else _required_after_first(loss)
        by_name = {name: kwargs[name] for name in names if name in kwargs}
        count = max(len(args) - (len(names) - len(by_name)), 0)
        rest = {name: value for name, value in kwargs.items() if name not in by_name}
        return (tuple(args[:count]), rest), (tuple(args[count:]), by_name)

    @contextlib.contextmanager
    def _modes_of_step(self) -> Iterator[None]:
        """Run the model in the mode of when the step was made, whatever a check sets: a step is of training."""
        modes = self.parts_of_step.modes
        before = [module.training for module, _ in modes]
        try:
            for module, mode in modes:
                module.training = mode
            yield
        finally:
            for (module, _), mode in zip(modes, before, strict=True):
                module.training = mode


# Messages and documents name the class as users import it.
TrainStep.__module__ = "pytest_fxgraph"


def _refuse_mode(mode: bool = True) -> None:
    raise NotImplementedError("a train step runs its model in the mode that the model had when the step was made")


STEPS = "fxgraph_steps"  # key in the meta of a step's graph: the number of steps that a check runs


def steps_of(model: Any) -> int | None:
    """Return the number of steps that a check of a step, or of a step's graph, runs; None for any other model."""
    if isinstance(model, TrainStep):
        return model.parts_of_step.steps
    meta = getattr(model, "meta", None)
    return meta.get(STEPS) if isinstance(meta, dict) else None


def summed(outputs: Any) -> torch.Tensor:
    """Return the sum of all floating outputs, the default loss. Raises CaptureError if there are none."""
    tensors = (leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor))
    floating = [tensor for tensor in tensors if tensor.is_floating_point()]
    if not floating:
        raise CaptureError(
            "the model returns no floating-point tensor, so its outputs have no sum to go backward from; give loss="
        )
    total = floating[0].sum()
    for value in floating[1:]:
        total = total + value.sum()
    return total


@contextlib.contextmanager
def _as_compiled(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Let an optimizer compute on its count of steps as a tensor, as under torch.compile.

    A graph would hold the count as a number. Eager computes alike, because Adam turns a gradient that is all rounding,
    such as that of a key's bias in attention, into whole steps.
    """
    before = [group.get("capturable") for group in optimizer.param_groups]
    was_compiling = part_of_torch("torch.compiler", "_is_compiling_flag", "a train step")
    compiler: Any = torch.compiler
    try:
        for group, capturable in zip(optimizer.param_groups, before, strict=True):
            if capturable is not None:
                group["capturable"] = True
        compiler._is_compiling_flag = True
        yield
    finally:
        compiler._is_compiling_flag = was_compiling
        for group, capturable in zip(optimizer.param_groups, before, strict=True):
            if capturable is not None:
                group["capturable"] = capturable


def _without_gradients(parameters: Sequence[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None


def _required_after_first(function: Any) -> list[str]:
    """Name the arguments that a loss must get behind the outputs."""
    try:
        parameters = inspect.signature(function.forward if isinstance(function, nn.Module) else function).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [each for each in parameters.values() if each.kind in positional]
    return [each.name for each in known[1:] if each.default is inspect.Parameter.empty]


def _bound(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {}


class _FirstValues(dict[str, Any]):
    """The state of one parameter; `first` has a copy of the value that each entry began with."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, Any] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self.first:
            # SGD makes its momentum of the first gradient, which weight decay changes.
            blank = torch.zeros_like if name == "momentum_buffer" else torch.clone
            self.first[name] = blank(value) if isinstance(value, torch.Tensor) else value
        super().__setitem__(name, value)


def _make_state(optimizer: torch.optim.Optimizer) -> None:
    """Let an optimizer make its state by a step without gradients, and put all values back to those from before."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    tensors = [*parameters, *(tensor for group in optimizer.param_groups for _, tensor in _tensors_of(group))]
    gradients, values = [each.grad for each in parameters], [each.detach().clone() for each in tensors]
    state: Any = defaultdict(_FirstValues)
    optimizer.state = state
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        optimizer.step()
    except TypeError as error:
        raise _refusal(optimizer, f"its step needs more than gradients ({error})") from error
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, values, strict=True):
                tensor.copy_(value)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.state = defaultdict(dict)
    for parameter, entries in state.items():
        for name, value in entries.items():
            if isinstance(value, torch.Tensor):
                value.copy_(entries.first[name])
            elif isinstance(value, (int, float)):
                raise _refusal(optimizer, f"it keeps {name!r} as a number, which a graph would keep as it is")
        optimizer.state[parameter] = dict(entries)


def _refusal(optimizer: torch.optim.Optimizer, reason: str) -> SubjectError:
    return SubjectError(
        f"cannot make a step with {type(optimizer).__name__}: {reason}; take an optimizer whose state is tensors, such "
        "as SGD, Adam or AdamW"
    )


def _tensors_of(group: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors among the numbers of a group, such as a learning rate, by name."""
    for name, value in group.items():
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, tuple):
            yield from ((f"{name}_{place}", each) for place, each in enumerate(value) if isinstance(each, torch.Tensor))


def _optimizer_tensors(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of an optimizer by path: of its groups, and of each parameter."""
    for number, group in enumerate(optimizer.param_groups):
        prefix = f"group_{number}." if len(optimizer.param_groups) > 1 else ""
        yield from ((f"{prefix}{name}", tensor) for name, tensor in _tensors_of(group))
    for number, (parameter, entries) in enumerate(optimizer.state.items()):
        for name, value in entries.items():
            if isinstance(value, torch.Tensor):
                yield f"{names.get(id(parameter), f'parameter_{number}')}.{name}", value
