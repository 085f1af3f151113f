"""The outermost calls of modules in a test, traced after the test if the test made no other graph.

While a test runs, the first call of a kind keeps references: the module, and plain tensors among the arguments, which
are used again if nobody wrote to them. Other tensors are replaced by ones of their shape. Nothing is copied.
"""

from __future__ import annotations

import functools
import hashlib
import io
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from pytest_fxgraph.captures.places_of_graphs import PLACES_OF_GRAPHS
from pytest_fxgraph.recorder.kept_graphs import KeptGraphs, reason_of, warnings_ignored
from pytest_fxgraph.recorder.replacements import Replacements
from pytest_fxgraph.recorder.user_lines import name_of_model, user_line
from pytest_fxgraph.recorder.watched_functions import WatchedFunctions

KIND = "module"
_EVAL_FRAME = "torch._dynamo.eval_frame"
_MOST_BYTES_KEPT = 2**30
_TOO_LARGE = "the modules of the test need more than 1 GiB, and are not kept until its end"
_REPLACED = "the test replaced a forward function, which is another one after the test"
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_SEQUENCES = (list, tuple)


class _Call(NamedTuple):
    key: str  # of the class, the structure and the arguments
    model: str
    line: str
    code: str  # of the forward functions of the module and of its parts
    module: Any = None  # None for a known key
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


class _Reference(NamedTuple):
    """A tensor among arguments."""

    tensor: Any  # None for a tensor that is not kept
    version: int  # counts the writes to it
    shape: tuple[int, ...]
    dtype: Any
    device: Any

    def value(self) -> Any:
        """Return the tensor as it was in the call; ones of its shape if it was not kept, or if somebody wrote to it."""
        import torch

        tensor = self.tensor
        if tensor is not None and _version_of(tensor) == self.version and tuple(tensor.shape) == self.shape:
            return tensor
        return torch.ones(self.shape, dtype=self.dtype, device=self.device)


class _Local(threading.local):
    is_in_module = False


class ModuleCalls:
    """Notes the outermost calls of modules, and records the graph of each after the test."""

    def __init__(self, kept: KeptGraphs, functions: WatchedFunctions, rootpath: Path) -> None:
        self._kept, self._functions, self._rootpath = kept, functions, rootpath
        self._is_running = False
        self._local = _Local()
        self._calls: list[_Call] = []
        self._seen: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self._structures: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._found: dict[str, tuple[str, str]] = {}  # by key: the hash of the graph, or "" and a reason
        self._kept_bytes = 0
        self._replaced: tuple[type, Any, Any] | None = None  # torch's class, its function and ours

    def add_to(self, replacements: Replacements) -> None:
        """Follow the imports of torch."""
        if KIND not in self._kept.kinds:
            return
        replacements.after_import(PLACES_OF_GRAPHS[KIND][0][0], lambda module: self._on())
        replacements.after_import("torch._dynamo.utils", self._mend)
        replacements.after_import(_EVAL_FRAME, lambda module: self._leave_to_python())
        replacements.add("start of a compilation", PLACES_OF_GRAPHS["compilation"], self._compilation)

    def begin(self) -> None:
        """Note the calls of a test, or of another attempt of one, from now on."""
        self._forget()
        self._is_running = KIND in self._kept.kinds
        self._on()

    def end(self) -> None:
        """Record the calls of the test, unless the test made another graph."""
        self.off()
        self._is_running = False
        if not self._kept.has_graphs():
            for call in self._calls:
                self._record(call)
        self._forget()

    def off(self) -> None:
        """Put torch's own function back."""
        if self._replaced is not None:
            owner, original, replacement = self._replaced
            self._replaced = None
            if vars(owner).get("__call__") is replacement:
                owner.__call__ = original  # type: ignore[method-assign]

    def _forget(self) -> None:
        self._calls, self._kept_bytes = [], 0
        self._seen, self._structures = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()

    def _on(self) -> None:
        torch_modules = sys.modules.get(PLACES_OF_GRAPHS[KIND][0][0])
        owner: Any = getattr(torch_modules, "Module", None)
        if not self._is_running or owner is None or self._replaced is not None:
            return
        original = owner.__call__
        replacement = self._watched(original)
        owner.__call__ = replacement
        self._replaced = owner, original, replacement
        self._leave_to_python()

    def _leave_to_python(self) -> None:
        """Keep Dynamo from the replacement, which a compiled module calls."""
        if self._replaced is not None and _EVAL_FRAME in sys.modules:
            from pytest_fxgraph.captures.torch_internals import leave_to_python

            leave_to_python(self._replaced[2].__code__)

    def _mend(self, utilities: ModuleType) -> None:
        """Show Dynamo torch's own function: it looks whether somebody replaced the function since its import."""
        if self._replaced is not None and vars(utilities).get("unpatched_nn_module_call") is self._replaced[2]:
            vars(utilities)["unpatched_nn_module_call"] = self._replaced[1]

    def _compilation(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(begin)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            # The test makes a graph of another kind, and Dynamo is to see torch's own function.
            self.off()
            return begin(*args, **kwargs)

        return replacement

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        local, functions = self._local, self._functions

        def replacement(module: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if local.is_in_module or self._replaced is None or functions.is_inside:
                return call(module, *args, **kwargs)
            local.is_in_module = True
            try:
                self._note(module, args, kwargs)
                return call(module, *args, **kwargs)
            finally:
                local.is_in_module = False

        return functools.wraps(call)(replacement)

    def _note(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            module = getattr(module, "_orig_mod", module)  # compiled in an earlier test
            signature = f"{module.training} {_signature((args, kwargs))}"
            seen = self._seen.setdefault(module, set())
            if signature in seen:
                return
            seen.add(signature)
            if module not in self._structures:
                self._structures[module] = _structure(module)
            code = _code_of(module)
            key = hashlib.sha256(f"{self._structures[module]}\n{code}\n{signature}".encode()).hexdigest()
            call = _Call(key, name_of_model(module), user_line(self._rootpath), code)
            if key not in self._found and all(key != each.key for each in self._calls):
                if self._kept_bytes > _MOST_BYTES_KEPT:
                    self._found[key] = "", _TOO_LARGE
                else:
                    self._kept_bytes += sum(each.nbytes for each in [*module.parameters(), *module.buffers()])
                    call = call._replace(module=module, args=self._lightened(args), kwargs=self._lightened(kwargs))
            self._calls.append(call)
        except Exception as error:  # a module with attributes of its own kind
            self._kept.leave_out(KIND, type(module).__qualname__, "", reason_of(error))

    def _lightened(self, value: Any) -> Any:
        def reference(leaf: Any) -> Any:
            if not _is_tensor(leaf):
                return leaf
            # A tensor with a history would keep the memory of a backward pass.
            is_kept = leaf.grad_fn is None and self._kept_bytes <= _MOST_BYTES_KEPT
            self._kept_bytes += leaf.nbytes if is_kept else 0
            return _Reference(leaf if is_kept else None, _version_of(leaf), tuple(leaf.shape), leaf.dtype, leaf.device)

        return _mapped(value, reference)

    def _record(self, call: _Call) -> None:
        if call.key not in self._found:
            self._found[call.key] = self._graph_of(call)
        graph, reason = self._found[call.key]
        if graph:
            self._kept.note(KIND, call.model, call.line, graph)
        else:
            self._kept.leave_out(KIND, call.model, call.line, reason)

    def _graph_of(self, call: _Call) -> tuple[str, str]:
        try:
            if call.code != _code_of(call.module):
                return "", _REPLACED
            return self._kept.hash_of(_document_of(self._traced(call))), ""
        except Exception as error:
            return "", reason_of(error)

    def _traced(self, call: _Call) -> Any:
        from pytest_fxgraph.captures.request import CaptureRequest, left_as_it_was
        from pytest_fxgraph.captures.torch_internals import torch_logs_quiet
        from pytest_fxgraph.captures.tracing import trace_for_inputs

        args, kwargs = (_mapped(each, lambda leaf: leaf.value() if isinstance(leaf, _Reference) else leaf)
                        for each in (call.args, call.kwargs))  # fmt: skip
        request = CaptureRequest.of(call.module, args, kwargs, "symbolic")
        printed = io.StringIO()
        with (
            self._functions.muted(),
            warnings_ignored(),
            torch_logs_quiet(),
            left_as_it_was(request),
            redirect_stdout(printed),
            redirect_stderr(printed),
        ):
            return trace_for_inputs(call.module, args, kwargs, verify=False)


def _document_of(graph_module: Any) -> Any:
    from pytest_fxgraph.document.builder import build_document

    return build_document(graph_module, sources=False, graphs={})


def _is_tensor(value: Any) -> bool:
    return type(value).__module__ in ("torch", "torch.nn.parameter") and hasattr(value, "grad_fn")


def _version_of(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # a tensor of inference mode counts no writes
        return 0


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a structure of lists, tuples and dicts with changed leaves."""
    if type(value) in (list, tuple):
        return type(value)(_mapped(each, change) for each in value)
    if type(value) is dict:
        return {key: _mapped(each, change) for key, each in value.items()}
    return change(value)


def _signature(value: Any) -> str:
    """Describe arguments: tensors by dtype, shape and whether they need a gradient, other plain values as they are."""
    if type(value) in (list, tuple):
        return f"[{', '.join(map(_signature, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{key}: {_signature(each)}' for key, each in value.items())}}}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype}{tuple(value.shape)}{getattr(value, 'requires_grad', '')}"
    return repr(value) if isinstance(value, _PLAIN) else type(value).__qualname__


def _code_of(module: Any) -> str:
    return str([hash(getattr(each.forward, "__code__", None)) for each in module.modules()])


def _structure(module: Any) -> str:
    """Describe a module: the classes of its submodules, their plain attributes, and the shapes of their state."""
    return "\n".join(f"{path}: {' '.join(_facts(each))}" for path, each in module.named_modules())


def _facts(module: Any) -> Iterator[str]:
    yield name_of_model(module)
    for name, value in vars(module).items():
        items = value if isinstance(value, _SEQUENCES) else (value,)
        if all(isinstance(each, _PLAIN) for each in items):
            yield f"{name}={value!r}"
        elif hasattr(value, "__qualname__"):  # a function, such as the activation
            yield f"{name}={value.__qualname__}"
    for table in (module._parameters, module._buffers):
        for name, tensor in table.items():
            yield f"{name}={None if tensor is None else (tensor.dtype, *tensor.shape)}"
