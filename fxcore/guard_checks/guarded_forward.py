"""The forward that runs: the generated code of a graph, with the checks of its guards between the statements."""

from __future__ import annotations

import copy
import functools
import threading
import weakref
from types import FunctionType
from typing import Any

from fxcore.codegen.codegen import PythonCode
from fxcore.codegen.source_cache import SOURCES
from fxcore.errors import GuardError
from fxcore.graph import Graph
from fxcore.guard_checks.check_code import CheckFunctions, ChecksOfRun
from fxcore.guard_checks.checks import result_of
from fxcore.guard_checks.modes_left import run_source
from fxcore.guard_checks.plan import ENTRY, Plan
from fxcore.guards import Guards, needed_nodes
from fxcore.node import Node
from fxcore.node_data.namespace import Namespace
from fxcore.state.snapshot import Snapshot, globals_kept, kept, state_kept


class GuardedForward:
    """The checked forward of a graph in its present form, made at its first use."""

    def __init__(self, graph: Graph, guards: Guards, module: Any, code: PythonCode) -> None:
        """`code` is the generated code of the graph: tracebacks and TorchScript see it. `module` owns the graph."""
        self._graph = copy.deepcopy(graph)  # the checks belong to the present form, and the calls of them go in here
        self._guards = guards
        self._module = weakref.ref(module)
        self._code = code
        self._origin = graph._co_fields
        self._lock = threading.Lock()
        self._function: FunctionType | None = None

    @functools.cached_property
    def _is_plain(self) -> bool:
        """Whether each node but the last has one line of code. The function of a user may change the lines."""
        indices = list((self._code._lineno_map or {}).values())
        output = len(self._graph.nodes) - 1
        lines = [index for index in indices if index != output]
        return self._graph._codegen._body_transformer is None and len(set(lines)) == len(lines)

    @functools.cached_property
    def checks(self) -> CheckFunctions:
        """The generated checks."""
        nodes = list(self._graph.nodes)
        module = self._module()
        prefix = "guards"
        while any(node.name.startswith(prefix) for node in nodes):
            prefix = f"_{prefix}"
        plan = Plan(self._graph, self._guards, module, at_entry=not self._is_plain)
        return CheckFunctions(plan, self._guards, module, type(module).__name__, prefix)

    @property
    def function(self) -> Any:
        """The compiled forward, a function."""
        with self._lock:
            if self._function is None:
                self._function = self._compiled()
            return self._function

    def _compiled(self) -> FunctionType:
        entry = self.checks.at_entry
        name = f"check_{entry.name}"
        call = f"{name}({', '.join(['self', *map(_parameter, entry.inputs)])})"
        is_plain = self._is_plain
        if len(self.checks.by_position) > 1:
            lines, names = self._lines_with_checks(call)
        else:
            lines, names = self._code.src.split("\n"), self._code.globals
            first = _first_line(self._code)
            # On one line with the first statement, so that the lines are those of the code without checks.
            lines[first : first + is_plain] = [f"    {call};  {lines[first].lstrip()}" if is_plain else f"    {call}"]
        names = {**names, name: entry.function}
        is_caught = is_plain and any(guard.caught for guard in self._guards)
        shown, on_error = self._code.src if is_plain else None, self._refuse_caught if is_caught else None
        run_source("\n".join(lines), names, self._origin, shown=shown, on_error=on_error)
        made: FunctionType = names["forward"]
        return made

    def _lines_with_checks(self, entry_call: str) -> tuple[list[str], dict[str, Any]]:
        """Return the lines of the code with `entry_call` and the calls of the other checks, and the globals.

        Each call follows a statement on the same line, so that the lines are those of the code without checks.
        """
        graph, plan = self._graph, self.checks.plan
        made: list[Node] = []
        for position, check in self.checks.by_position.items():
            place = plan.nodes[position] if position != ENTRY else plan.placeholders[-1] if plan.placeholders else None
            with graph.inserting_after(place) if place is not None else graph.inserting_before():
                made.append(graph.call_function(check.function, (*made[-1:], *check.inputs)))
        nodes = list(graph.nodes)
        code = graph._codegen._gen_python_code(nodes, "self", Namespace())
        node_of_line = {line + code._prologue_start - 1: index for line, index in (code._lineno_map or {}).items()}
        lines: list[str] = []
        start = ""
        for number, line in enumerate(code.src.split("\n")):
            index = node_of_line.get(number)
            node = None if index is None else nodes[index]
            if node is made[0]:
                start = f"{line.partition(' = ')[0].strip()} = {entry_call};  "
            elif node in made:
                lines[-1] += f";  {line.strip().replace('(', '(self, ', 1)}"
            else:
                lines.append(f"    {start}{line.lstrip()}" if start else line)
                start = ""
        return lines, code.globals

    def _refuse_caught(self, module: Any, error: BaseException, variables: dict[str, Any]) -> None:
        """Raise GuardError (a ValueError) for an error of the node on the failed line that the traced code catches."""
        states = [variables.get(check.name) for check in self.checks.by_position.values()]
        state = next(filter(None, reversed(states)), None)  # None in a call without checks
        if state is not None and isinstance(error, Exception) and error.__traceback__ is not None:
            line = error.__traceback__.tb_lineno - self._code._prologue_start
            node = self.checks.plan.nodes[(self._code._lineno_map or {}).get(line) or 0]
            self.checks.checker.refuse_caught(module, node, error, state)

    # Checks without a run of the whole graph.

    @functools.cached_property
    def _inputs_of(self) -> Any:
        """A function of the module and its arguments that returns the values of the graph's inputs."""
        lines = self._code.src.split("\n")[: _first_line(self._code)]
        inputs = "".join([f"{_parameter(node)}, " for node in self.checks.plan.placeholders])
        names = dict(self._code.globals)
        SOURCES.run("\n".join([*lines, f"    return ({inputs})", ""]), names)
        return names["forward"]

    def check(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Check all guards for the arguments of a call; run the graph up to the last check, and restore the state.

        Raises GuardError (a ValueError) for the first guard that does not hold.
        """
        entry, *others = self.checks.by_position.values()
        inputs = self._inputs_of(module, *args, **kwargs)
        if not others and not self.checks.plan.alone:
            with globals_kept(settings=False):
                entry.function(module, *inputs)
            return
        named = [(f"input {index}", value) for index, value in enumerate(inputs)]
        with state_kept(module), kept(Snapshot.of_values(named)):
            self._run_checks(module, inputs)

    def _run_checks(self, module: Any, inputs: tuple[Any, ...]) -> None:
        plan = self.checks.plan
        values = dict(zip(plan.placeholders, inputs, strict=True))
        run = ChecksOfRun(self.checks, module, values)
        read = [node for check in self.checks.by_position.values() for node in check.inputs]
        needed = needed_nodes([*read, *[node for position, node in plan.writers if position <= plan.last]])
        for node in plan.nodes[: plan.last + 1]:
            if node not in values:
                if node in needed:
                    try:
                        values[node] = result_of(node, values.__getitem__, module)
                    except Exception as error:
                        run.failed(node, error)
                        raise
                run.after(node, values.get(node))

    def supports(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
        """Return whether all guards hold for the arguments of a call; None if a run of the graph must tell."""
        entry, *others = self.checks.by_position.values()
        inputs = self._inputs_of(module, *args, **kwargs)
        try:
            with globals_kept(settings=False):  # a condition may draw a random number
                entry.function(module, *inputs)
        except GuardError:
            return False
        return None if others else True


def _parameter(placeholder: Node) -> str:
    return str(placeholder.target).replace("*", "")


def _first_line(code: PythonCode) -> int:
    """Return the index of the first line of a function's body among the lines of its source."""
    return code._prologue_start - 1 + min(code._lineno_map or {1: 0})
