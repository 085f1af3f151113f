"""Failures of a trace with an example: each is an error of fxcore, with the user's line, the reason, the next step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fxcore.errors import FxError, TraceCallError, TraceError
from fxcore.guided.higher_order import operators_called_in_python
from fxcore.guided.inputs import copied_example, positional_of
from fxcore.operators.higher_order import missing_operator
from fxcore.state.snapshot import state_kept
from fxcore.tracer import module_path_of
from fxcore.tracing.call_site import is_library_file, shown_line
from fxcore.tracing.refused_calls import place_of, place_text


class CaughtErrors:
    """The errors of recorded calls in one trace, some of them caught by the traced code.

    Where traced code catches an error, it decides by the error. Other inputs may raise none, and a refusal of the
    tracer is no error of the model.
    """

    def __init__(self, assumed: Mapping[str, Any] | None) -> None:
        """`assumed` maps places, "file.py:line", to whether the example decides there."""
        self._assumed = [place for place, wanted in (assumed or {}).items() if wanted]
        self._errors: list[Exception] = []

    def __len__(self) -> int:
        return len(self._errors)

    def forget_since(self, count: int) -> None:
        """Forget all errors after the first `count`."""
        del self._errors[count:]

    def note(self, error: Exception) -> None:
        """Note an error that a recorded call, or the tracer, raises now."""
        self._errors.append(error)

    def refuse_caught(self) -> None:
        """Raise TraceError (a ValueError) if code of the user caught an error of this trace."""
        for error in self._errors:
            traceback = error.__traceback__
            if traceback is None or is_library_file(traceback.tb_frame.f_code.co_filename):
                continue  # code in C, or of torch or fxcore, caught it
            if isinstance(error, FxError):
                raise error
            file, line, source = place_of(error)
            place = f"{file}:{line}"
            if not any(place.endswith(each) for each in self._assumed):
                raise TraceError(
                    f"the traced code catches {_shown(error)} at {place}: {source}\n"
                    "Other inputs may not raise it, and the graph would go on as the example does. Ask for the reason "
                    f"of the error instead (a size, a type), take the example's way with assume={{{place!r}: True}}, "
                    "or keep it in a leaf (fxcore.wrap, leaf_modules=)"
                ) from error


def explained(
    error: Exception,
    root: torch.nn.Module | Callable[..., Any],
    method: str,
    args: Any,
    kwargs: Mapping[str, Any] | None,
) -> Exception:
    """Return the error to raise for a failed trace of `root` on an example.

    An error of the tracer stays. An error that eager raises on the example too is the model's own. Everything else is
    a TraceError, or a TraceCallError (a TypeError) for a TypeError.
    """
    reason = _error_of_tracer(error)
    if reason is not None:
        return reason
    missing = missing_operator(str(getattr(error, "name", None) or ""))
    if missing:
        return TraceError(f"{missing}\n{_shown(error)}{place_text(error, module_path_of(error.__traceback__))}")
    of_model = _error_of_eager(root, method, args, dict(kwargs or {}))
    if of_model is not None:
        return of_model
    path = module_path_of(error.__traceback__)
    kind = TraceCallError if isinstance(error, TypeError) else TraceError
    place = place_text(error, path) if place_of(error)[0] else f" at {_first_line(root, method)}"
    return kind(
        f"tracing raised {_shown(error)}{place}\n"
        "The model runs on this example, but the code there does not take traced values. Keep it in a leaf: a function "
        f"with fxcore.wrap() or wrap=, a module with leaf_modules={f'({path!r},)' if path else ''}, or "
        "leaf_modules='auto' for the smallest modules that cannot be traced"
    )


def _error_of_tracer(error: BaseException) -> FxError | None:
    """Return the tracer's own error that an error is, or that it was raised from."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, FxError):
        found = found.__cause__
    return found


def _error_of_eager(root: Any, method: str, args: Any, kwargs: dict[str, Any]) -> Exception | None:
    call = getattr(root, method) if isinstance(root, torch.nn.Module) and method != "forward" else root
    with state_kept(root, parameters=True), operators_called_in_python():
        positional, kwargs = copied_example((positional_of(args), kwargs))
        try:
            call(*positional, **kwargs)
        except Exception as error:
            return error
    return None


def _first_line(root: Any, method: str) -> str:
    function = getattr(type(root), method, None) if isinstance(root, torch.nn.Module) else root
    code = getattr(function, "__code__", None)
    return shown_line(code.co_filename, code.co_firstlineno) if code is not None else type(root).__name__


def _shown(error: Exception) -> str:
    first, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
