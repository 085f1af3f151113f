"""Modes of torch in a trace with an example: nodes switch them, and answers to questions about them become guards.

`with torch.autocast(...)` and `with torch.no_grad()` become nodes. Without the nodes, the graph computes in another
precision than the model, or has gradients where the model stops them. A mode that makes no difference to the operations
inside it becomes no node.

The traced code asks for grad mode, inference mode, autocast, and the `training` of modules. Each answer is a guard,
unless the traced code itself switched the mode. Because libraries ask in each of their calls, only questions of the
traced code count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch import is_autocast_enabled, is_grad_enabled, nn  # those of torch, which a trace replaces
from torch._C import _set_grad_enabled
from torch.amp import autocast_mode

from fxcore.node import Node
from fxcore.operators.table import operator_table
from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import instructions_from, is_library_file, is_redundant_condition
from fxcore.tracing.patching import Replacement
from fxcore.tracing.wrap import handled_by

# A graph stops gradients where the code is in inference mode. Its results are ordinary tensors.
_GRAD_MODES = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode)
_MARK = "_fxcore_recorded"  # on the user's context manager, between its begin and its end


def replacements() -> Iterator[Replacement]:
    """Yield the replacements of questions, and of the begin and the end of blocks."""
    for name, facts in operator_table().items():
        if "asks_mode" in facts:
            yield Replacement("torch", name.removeprefix("torch."), handled_by(_note_mode))
    blocks: list[tuple[Any, Any, Any]] = [(each, _begin_grad_mode, _end_grad_mode) for each in _GRAD_MODES]
    for kind, begin, end in [*blocks, (torch.autocast, _begin_autocast, _end_autocast)]:
        yield Replacement(kind, "__enter__", handled_by(begin))
        yield Replacement(kind, "__exit__", handled_by(end))
    yield Replacement(torch.set_grad_enabled, "__init__", handled_by(_set_grad_mode))
    yield Replacement("torch._C", "_set_grad_enabled", handled_by(_set_grad_mode_of_thread))
    yield Replacement(torch.backends.ContextProp, "__get__", handled_by(_note_flag))
    yield Replacement(type(torch.backends.cuda.matmul), "__getattr__", handled_by(_note_flag_of_products))


# Blocks.


def _begin_autocast(tracer: Any, original: Callable[..., Any], self: Any) -> Any:
    switched = tracer.answers.switched
    switched["autocast"] += 1
    if not (self._enabled or torch.is_autocast_enabled(self.device)):
        vars(self)[_MARK] = (_last_node(tracer), None) if switched["autocast"] == 1 else None
        return original(self)
    options = (self.device, self.fast_dtype, self._enabled, self._cache_enabled)
    vars(self)[_MARK] = (None, tracer.create_proxy("call_function", autocast_mode._enter_autocast, options, {}))
    return self


def _end_autocast(tracer: Any, original: Callable[..., Any], self: Any, *error: Any) -> Any:
    tracer.answers.switched["autocast"] -= 1
    mark = vars(self).pop(_MARK, None)
    if mark is not None and mark[1] is not None:
        tracer.create_proxy("call_function", autocast_mode._exit_autocast, (mark[1],), {})
        return None
    ended = original(self, *error)
    # Autocast was off, and the block makes no difference. In a run under autocast it would.
    if mark is not None and any(_computes(tracer, node) for node in _nodes_after(tracer.graph, mark[0])):
        tracer.answers.note_mode(is_autocast_enabled, (self.device,), {}, False)
    return ended


def _computes(tracer: Any, node: Node) -> bool:
    """Return whether a node computes with tensors."""
    scalars = tracer.answers.scalars
    return node not in scalars and any(each not in scalars for each in node.all_input_nodes)


def _begin_grad_mode(tracer: Any, original: Callable[..., Any], self: Any) -> Any:
    switched = tracer.answers.switched
    switched["grad"] += 1
    before = self.prev if isinstance(self, torch.set_grad_enabled) else torch.is_grad_enabled()
    begun = original(self)
    vars(self)[_MARK] = (_last_node(tracer), switched["grad"] == 1, before, torch.is_grad_enabled())
    return begun


def _set_grad_mode(tracer: Any, original: Callable[..., Any], self: Any, mode: Any) -> None:
    """Set the grad mode, as a number that Python knows. A call without a `with` block is a node."""
    original(self, bool(mode))
    frame = sys._getframe(2)
    following = [] if is_library_file(frame.f_code.co_filename) else instructions_from(frame.f_code, frame.f_lasti)
    if following and following[1].opname == "POP_TOP":
        tracer.create_node("call_function", _set_grad_enabled, (self.mode,), {})


def _set_grad_mode_of_thread(tracer: Any, original: Callable[..., Any], mode: Any) -> None:
    """Set the grad mode. A call of the traced code, as that of a graph of torch.export, is a node."""
    original(bool(mode))
    if not is_library_file(sys._getframe(2).f_code.co_filename):
        tracer.create_node("call_function", _set_grad_enabled, (bool(mode),), {})


def _end_grad_mode(tracer: Any, original: Callable[..., Any], self: Any, *error: Any) -> Any:
    """End a block. The graph restores the mode of the run, not that of the trace."""
    tracer.answers.switched["grad"] -= 1
    last, is_outermost, before, mode = vars(self).pop(_MARK, (None,) * 4)
    if tracer is module_hooks.active_tracer() and (before is not mode or is_outermost):
        made = _nodes_after(tracer.graph, last)
        if _has_gradients(tracer, made, mode):
            with tracer.graph.inserting_before(made[0]):
                if is_outermost:
                    before = tracer.create_node("call_function", is_grad_enabled, (), {})
                tracer.create_node("call_function", _set_grad_enabled, (mode,), {})
            tracer.create_node("call_function", _set_grad_enabled, (before,), {})
    return original(self, *error)


def _has_gradients(tracer: Any, made: list[Node], mode: bool) -> bool:
    """Return whether gradients flow through nodes of a block, or might flow to a block that stops them."""
    inputs = [] if mode else [each for node in made for each in node.all_input_nodes]
    if any(tracer.has_gradient(each) for each in (*made, *inputs)):
        return True
    could = tracer.answers.differentiable
    return any(node in could and not could.isdisjoint(node.all_input_nodes) for node in made)


def _last_node(tracer: Any) -> Node | None:
    return next(iter(reversed(tracer.graph.nodes)), None)


def _nodes_after(graph: Any, last: Node | None) -> list[Node]:
    made: list[Node] = []
    for node in reversed(graph.nodes):
        if node is last:
            break
        if node.op != "placeholder":  # an inner graph gets inputs while it is recorded
            made.append(node)
    return made[::-1]


# Questions.


# The caller is the second frame from here, behind the replacement.


def _note_mode(tracer: Any, question: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    answer = question(*args, **kwargs)
    if _asking_tracer(sys._getframe(2), answer) is not None:
        tracer.answers.note_mode(question, args, kwargs, answer)
    return answer


def _note_flag(tracer: Any, original: Callable[..., Any], flag: Any, backend: Any, kind: Any) -> Any:
    """Read a flag such as torch.backends.cudnn.benchmark."""
    value, frame = original(flag, backend, kind), sys._getframe(2)
    if _asking_tracer(frame, value) is not None:
        name = next(name for each in kind.__mro__ for name, held in vars(each).items() if held is flag)
        tracer.outer_reads.note_flag(backend, getattr(backend, "m", backend).__name__, name, value, frame)
    return value


def _note_flag_of_products(tracer: Any, original: Callable[..., Any], products: Any, name: str) -> Any:
    """Read a flag such as torch.backends.cuda.matmul.allow_tf32."""
    value, frame = original(products, name), sys._getframe(2)
    if _asking_tracer(frame, value) is not None:
        tracer.outer_reads.note_flag(products, "torch.backends.cuda.matmul", name, value, frame)
    return value


def _asking_tracer(frame: FrameType, answer: Any) -> Any:
    """Return the tracer of the running trace if `frame` is traced code, and its way depends on the answer."""
    tracer = module_hooks.tracer_of_all_calls()
    if tracer is None or is_library_file(frame.f_code.co_filename) or is_redundant_condition(frame, bool(answer)):
        return None
    return tracer


def _training(module: nn.Module) -> Any:
    attributes = vars(module)
    # A scripted module has it elsewhere.
    value = attributes["training"] if "training" in attributes else module.__getattr__("training")
    tracer = _asking_tracer(sys._getframe(1), value)
    if tracer is not None and module in (tracer.submodule_paths or ()):
        tracer.answers.note_training(module, value)
    elif tracer is not None:
        tracer.outer_reads.note_training(module, value, sys._getframe(1))
    return value


def _set_training(module: nn.Module, value: bool) -> None:
    vars(module)["training"] = value


# A new attribute of nn.Module while a trace runs.
TRAINING = {"training": property(_training, _set_training)}
