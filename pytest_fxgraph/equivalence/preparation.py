"""Before model and graph are compared: the training mode they run in, and the first call of lazy modules."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from fxcore.state.held_state import modules_by_path
from fxcore.state.readings import seed_generators
from pytest_fxgraph.arguments import MODES
from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments
from pytest_fxgraph.errors import ChoiceError


def checked_modes(modes: object) -> tuple[str, ...]:
    """Return the modes to run in, from one name or several; raise ChoiceError for an unknown name and for no name."""
    wanted = (modes,) if isinstance(modes, str) else tuple(modes) if isinstance(modes, (tuple, list)) else ()
    if not wanted or any(mode not in MODES for mode in wanted):
        raise ChoiceError(f"modes must name at least one of {', '.join(map(repr, MODES))}, got {modes!r}")
    return wanted


def set_mode(model: object, mode: str, modes: tuple[str, ...] = ()) -> str | None:
    """Call the model's train(), which may keep parts frozen, unless every module is in that mode already.

    Return the mode. Return None if the model refuses train() and eval(), as the module of an exported program does: the
    model then keeps the mode of its capture. Parts that refuse are left out. Raises ChoiceError if a model that refuses
    has to run in more than one of `modes`.
    """
    if not isinstance(model, nn.Module) or _is_in_mode(model, mode):
        return mode
    try:
        model.train(mode == "train")
    except NotImplementedError:
        if not _has_own_train(model):
            _set_flags(model, mode == "train")
            return mode
        if len(modes) > 1:
            raise ChoiceError(
                f"modes={modes!r} asks for more than one, and the {type(model).__name__} refuses train() and eval(): "
                "it has only the mode that it was captured in. Leave modes out, and capture the model once in each mode"
            ) from None
        return None
    return mode


def _set_flags(module: nn.Module, training: bool) -> None:
    """Set the flags of all parts, except parts that refuse train()."""
    if not _has_own_train(module):
        module.training = training
        for child in module.children():
            _set_flags(child, training)


def _has_own_train(module: nn.Module) -> bool:
    """Return whether train() was replaced in this one module, as torch does in modules of exported programs."""
    return "train" in vars(module)


def _is_in_mode(model: nn.Module, mode: str) -> bool:
    """Return whether the model is in the mode already, because train() takes as long as a small forward."""
    modules = [module for _, module in modules_by_path(model)]
    return all(
        module.training is (mode == "train") and type(module).train is nn.Module.train and not _has_own_train(module)
        for module in modules
    )


def follow_mode(graph: object, model: object, mode: str | None) -> None:
    """Give every module of the graph the flag of the same module, or module path, in the model; else that of `mode`.

    With None, the result of set_mode() for a model without modes, the graph keeps its flags.
    """
    if mode is None:
        return
    of_model = modules_by_path(model)
    by_path = {path: module.training for path, module in of_model}
    by_identity = {id(module): module.training for _, module in of_model}
    for path, module in modules_by_path(graph):
        training = by_identity.get(id(module), by_path.get(path, mode == "train"))
        if module.training is not training:
            module.training = training


# Set by train() and eval() that torch's quantization puts into an exported model; they rewrite its graph.
_MODE_OF_EXPORTED = "_exported_training"


@contextlib.contextmanager
def training_kept(*roots: object) -> Iterator[None]:
    """Set the mode of every module below some roots back at the end of a with block, also after an error."""
    modules = {id(part): part for root in roots for _, part in modules_by_path(root)}
    flags = [(module, module.training) for module in modules.values()]
    exported = [(part, _exported_mode(part)) for part in modules.values() if _has_own_train(part)]
    try:
        yield
    finally:
        for module, was_training in exported:
            if _exported_mode(module) is not was_training:
                module.train(was_training)
        for module, training in flags:
            if module.training is not training:
                module.training = training


def _exported_mode(module: nn.Module) -> bool:
    """Return whether an exported model was moved to train mode; a model that was never moved is for inference."""
    return bool(getattr(module, _MODE_OF_EXPORTED, False))


def initialized(model: Any, arguments: Arguments, seed: int) -> Any:
    """Return the model, or, if it has lazy modules without shapes, a copy of it that was called once.

    The first call of a lazy module changes it, and both runs must start alike. The caller restores the generators.
    """
    if not any(isinstance(module, LazyModuleMixin) for _, module in modules_by_path(model)):
        return model
    made = copy.deepcopy(model, _copied_buffers(model))
    copied = copy_arguments(arguments).arguments
    seed_generators(seed)
    with training_kept(made), torch.no_grad():
        made.eval()  # this call must not change buffers, as train mode does
        made(*copied.args, **copied.kwargs)
    return made


def _copied_buffers(model: nn.Module) -> dict[int, Any]:
    """Copy the buffers without shapes, because deepcopy() cannot copy them."""
    buffers = [buffer for _, module in modules_by_path(model) for buffer in module._buffers.values()]
    return {
        # torch's stub knows no parameters of this class.
        id(buffer): nn.UninitializedBuffer(device=buffer.device, dtype=buffer.dtype)  # type: ignore[call-arg]
        for buffer in buffers
        if isinstance(buffer, nn.UninitializedBuffer)
    }
