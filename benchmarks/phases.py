"""From a model to a running graph and what is done with it: one function a phase, the same for both libraries."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from benchmarks.library import Library
from benchmarks.subjects import hollow, inputs_of, model
from benchmarks.task import Task


@dataclass(frozen=True)
class Phase:
    """A phase, the ratios that it is to reach over torch.fx and over an earlier fxcore, and its work."""

    name: str
    target: float
    task: Callable[[Library, str], Task]
    # Work that the time contains and that is none of the library's: subtracted.
    contained: Callable[[Library, str], Task] | None = None
    over_earlier: float = 0.9  # not slower, beyond the noise


def _traced(library: Library, name: str) -> Any:
    return library.fx.symbolic_trace(model(name))


def _trace(library: Library, name: str) -> Task:
    module = model(name)
    return Task(lambda tracer: tracer.trace(module), library.fx.Tracer)


def _symbolic_trace(library: Library, name: str) -> Task:
    module = model(name)
    return Task(lambda _: library.fx.symbolic_trace(module))


def _with_code(library: Library, name: str) -> Task:
    module = model(name)
    return Task(lambda _: library.fx.symbolic_trace(module).code)


def _with_forward(library: Library, name: str) -> Task:
    module = model(name)

    def cold(_: object) -> Any:
        library.forget_code()  # here, because all repeats of a round are prepared before the first of them runs
        return _compiled(library.fx.symbolic_trace(module))

    return Task(cold)


def _with_forward_cached(library: Library, name: str) -> Task:
    module = model(name)
    return Task(lambda _: _compiled(library.fx.symbolic_trace(module)))


def _compiled(graph_module: nn.Module) -> Any:
    # Not run: what the kernels cost is no concern here, and would drown the rest.
    return graph_module.forward


def _code_generation(library: Library, name: str) -> Task:
    graph = _traced(library, name).graph
    return Task(lambda _: graph.python_code("self"))


def _graph_module(library: Library, name: str) -> Task:
    module = model(name)
    return Task(lambda graph: library.fx.GraphModule(module, graph), lambda: library.fx.Tracer().trace(module))


def _deepcopy(library: Library, name: str) -> Task:
    graph = _traced(library, name).graph
    return Task(lambda _: copy.deepcopy(graph))


def _lint(library: Library, name: str) -> Task:
    graph = _traced(library, name).graph
    return Task(lambda _: graph.lint())


def _text(library: Library, name: str) -> Task:
    graph = _traced(library, name).graph
    return Task(lambda _: str(graph))


def _loads(library: Library, name: str) -> Task:
    # Without the weights, which both sides pickle as torch does: their time would hide the graph's.
    graph_module = _weightless(_traced(library, name))
    data = pickle.dumps(graph_module)
    return Task(lambda _: pickle.loads(data))


def _weightless(graph_module: nn.Module) -> nn.Module:
    # Those that the graph reads itself stay: torch.fx runs the code when it loads a pickle.
    graph_module = copy.deepcopy(graph_module)
    for path, child in list(graph_module.named_modules()):
        if path and not child._modules:
            _replace(graph_module, path, nn.Identity())
    return graph_module


def _replace(root: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    root.get_submodule(parent)._modules[name] = module


def _interpreter(library: Library, name: str) -> Task:
    interpreter = library.fx.Interpreter(hollow(library, _traced(library, name).graph))
    inputs = inputs_of(name)
    return Task(lambda _: interpreter.run(*inputs))


def _hollow_forward(library: Library, name: str) -> Task:
    forward = hollow(library, _traced(library, name).graph).forward
    inputs = inputs_of(name)
    return Task(lambda _: forward(*inputs))


def _shape_prop(library: Library, name: str) -> Task:
    prop = library.ShapeProp(hollow(library, _traced(library, name).graph))
    inputs = inputs_of(name)
    return Task(lambda _: prop.propagate(*inputs))


def _transformer_of_functions(library: Library, name: str) -> Task:
    class Transformer(library.fx.Transformer):  # type: ignore[name-defined,misc]  # either library's
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_function(target, args, kwargs)

    graph_module = _traced(library, name)
    return Task(lambda _: Transformer(graph_module).transform())


def _transformer_of_modules(library: Library, name: str) -> Task:
    class Transformer(library.fx.Transformer):  # type: ignore[name-defined,misc]  # either library's
        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_module(target, args, kwargs)

    graph_module = _traced(library, name)
    return Task(lambda _: Transformer(graph_module).transform())


PHASES = (
    Phase("trace", 5, _trace, over_earlier=1.3),
    Phase("symbolic_trace", 6, _symbolic_trace, over_earlier=1.25),
    Phase("symbolic_trace + code", 6, _with_code, over_earlier=1.4),
    Phase("symbolic_trace + forward, cold", 3.5, _with_forward, over_earlier=1.15),
    Phase("symbolic_trace + forward, code cached", 5, _with_forward_cached),
    Phase("code generation", 7.5, _code_generation, over_earlier=1.7),
    Phase("GraphModule", 8, _graph_module),
    Phase("graph deepcopy", 4.2, _deepcopy, over_earlier=1.2),
    Phase("lint", 3, _lint),
    Phase("str(graph)", 3, _text),
    Phase("pickle.loads", 2, _loads),
    Phase("Interpreter.run, overhead", 3, _interpreter, _hollow_forward),
    Phase("ShapeProp, overhead", 2, _shape_prop, _hollow_forward),
    Phase("Transformer, call_function overridden", 3, _transformer_of_functions),
    Phase("Transformer, call_module overridden", 3, _transformer_of_modules),
)
