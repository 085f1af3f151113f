"""Questions of the traced code about modes: grad mode, inference mode, autocast, and the `training` of modules.

Each answer becomes a guard, unless the traced code itself switched the mode. Because libraries ask in each of their
calls, only questions of the traced code count.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import nn

from fxcore.operators.table import operator_table
from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import is_library_file, is_outvoted
from fxcore.tracing.patching import Replacement


def replacements() -> list[Replacement]:
    """Return the replacements of functions that ask for a mode."""
    names = [name.removeprefix("torch.") for name, facts in operator_table().items() if "asks_mode" in facts]
    return [Replacement("torch", name, _noting) for name in names]


def _noting(question: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(question)
    def ask(*args: Any, **kwargs: Any) -> Any:
        answer = question(*args, **kwargs)
        tracer = _asking_tracer(sys._getframe(1))
        if tracer is not None:
            tracer.answers.note_mode(question, args, kwargs, answer)
        return answer

    return ask


def _asking_tracer(frame: FrameType) -> Any:
    """Return the tracer of the running trace if `frame` is traced code, and its way depends on the answer."""
    tracer = module_hooks.tracer_of_all_calls()
    if tracer is None or is_library_file(frame.f_code.co_filename) or is_outvoted(frame):
        return None
    return tracer


def _training(module: nn.Module) -> bool:
    try:
        value: bool = vars(module)["training"]
    except KeyError:
        raise AttributeError("training") from None  # a scripted module has it elsewhere
    tracer = _asking_tracer(sys._getframe(1))
    if tracer is not None:
        tracer.answers.note_training(module, value)
    return value


def _set_training(module: nn.Module, value: bool) -> None:
    vars(module)["training"] = value


# A new attribute of nn.Module while a trace runs.
TRAINING = {"training": property(_training, _set_training)}
