"""The checks of a plan as generated functions: one for the inputs, and one for each call with checks right after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import torch

from fxcore.codegen.globals import GeneratedGlobals
from fxcore.codegen.source_cache import GENERATED, SOURCES
from fxcore.codegen.statements import StatementWriter
from fxcore.guard_checks.checks import Checker, is_checked
from fxcore.guard_checks.plan import ENTRY, Plan
from fxcore.guard_checks.undo import state_written_by
from fxcore.guards import Guards, is_path
from fxcore.node import Node
from fxcore.node_data.namespace import Namespace

# Values that Python compares with `!=`, and that source can name.
_LITERALS = (bool, int, str, torch.dtype)
# The `__module__` of generated checks. Generated code calls them under this name.
_MODULE = "guards"
# The variable with the values that guards without a twin share.
ALONE = "_values_alone"
# Functions that give a truth. Symbolic truths of torch cannot be compared.
_TRUTHS = frozenset({"bool", "lt", "le", "eq", "ne", "gt", "ge", "is_", "is_not", "not_", "contains", "isinstance"})


class CheckFunction(NamedTuple):
    """One generated function. It takes the module, the state of the last function, and the values of `inputs`.

    It returns the state for the next function. The first function takes no state, and returns None for a call that is
    not checked; after None, the others do nothing.
    """

    name: str
    function: Any
    inputs: tuple[Node, ...]  # nodes of the graph


def is_check(function: FunctionType) -> bool:
    """Return whether a function is a generated check. A user may have a module `guards` as well, in a file."""
    return function.__module__ == _MODULE and function.__code__.co_filename.startswith(GENERATED)


class CheckFunctions:
    """The generated functions of one plan by position. `name` is the name of the graph's module."""

    def __init__(self, plan: Plan, guards: Guards, module: Any, name: str, prefix: str = "guards") -> None:
        """`prefix` begins the names of all functions."""
        self.plan = plan
        self._guards = guards
        self._written = state_written_by(plan, module)
        self.checker = Checker(guards, plan, self._written, name)
        self._prefix = prefix
        self._read_at = {position: self._values_read(work) for position, work in plan.checks.items()}
        self.by_position: dict[int, CheckFunction] = {}
        carried: list[Node] = []
        for position in sorted({ENTRY, *plan.checks}):
            needed = {node for later, read in self._read_at.items() if later > position for node in read}
            computed = [each for each in plan.checks.get(position, ()) if isinstance(each, Node)]
            carried_on = [node for node in (*carried, *computed) if node in needed]
            self.by_position[position] = self._function(position, carried, carried_on)
            carried = carried_on

    @property
    def at_entry(self) -> CheckFunction:
        """The function that checks the inputs."""
        return self.by_position[ENTRY]

    def _values_read(self, work: Sequence[Node | int]) -> list[Node]:
        """Return the nodes of conditions and graph whose values some work reads."""
        read: dict[Node, None] = {}
        for each in work:
            if isinstance(each, Node):
                read.update(dict.fromkeys(map(self.plan.value_of, each.all_input_nodes)))
            elif each not in self.plan.alone:
                read[self.plan.value_of(self.plan.asked[each])] = None
        return list(read)

    def _function(self, position: int, carried: list[Node], carried_on: list[Node]) -> CheckFunction:
        plan = self.plan
        if position == ENTRY:
            inputs = tuple(plan.placeholders)
        else:
            of_graph = set(plan.twins.values())
            inputs = tuple(node for node in self._read_at[position] if node in of_graph)
        name = self._prefix if position == ENTRY else f"{self._prefix}_at_{position}"
        writer = _Source(plan, self._guards, self.checker, position, any(self._written))
        source, names = writer.written(name, inputs, carried, carried_on)
        SOURCES.run(source, names)
        function = names[name]
        function.__module__ = _MODULE
        return CheckFunction(name, function, inputs)


class ChecksOfRun:
    """The checks of one run of a graph, node by node."""

    def __init__(self, functions: CheckFunctions, module: Any, known: Mapping[Node, Any]) -> None:
        """`known` are values that the run starts with."""
        self._functions, self._module = functions, module
        plan = functions.plan
        self._check_after = {
            plan.nodes[position]: each for position, each in functions.by_position.items() if position >= 0
        }
        self._read = {node for each in functions.by_position.values() for node in each.inputs}
        self._values = {node: value for node, value in known.items() if node in self._read}
        self._missing = set(plan.placeholders) - self._values.keys()
        self._state = self._checked(functions.at_entry) if not self._missing else None

    def failed(self, node: Node, error: Exception) -> None:
        """Refuse the run for an error of a node that the traced code catches. Raises GuardError (a ValueError)."""
        self._functions.checker.refuse_caught(self._module, node, error, self._state)

    def after(self, node: Node, value: Any) -> None:
        """Check what can be checked once a node has a value. Raises GuardError (a ValueError)."""
        if node in self._read:
            self._values[node] = value
        if node in self._missing:
            self._missing.discard(node)
            if not self._missing:
                self._state = self._checked(self._functions.at_entry)
        check = self._check_after.get(node)
        if check is not None and self._state is not None:
            self._state = self._checked(check, self._state)

    def _checked(self, check: CheckFunction, *state: Any) -> Any:
        return check.function(self._module, *state, *[self._values[node] for node in check.inputs])


class _Source:
    """Writer of one function."""

    def __init__(self, plan: Plan, guards: Guards, checker: Checker, position: int, keeps_state: bool) -> None:
        self._plan, self._guards, self._position, self._keeps_state = plan, guards, position, keeps_state
        self._namespace = namespace = Namespace()
        self._globals = GeneratedGlobals(namespace)
        self._checker = self._globals.add("_checker", checker)
        self._is_checked = self._globals.add("_is_checked", is_checked)
        self._writer = StatementWriter(namespace, "self", self._globals)
        self._lines: list[str] = []
        self._guard_of_line = checker.guard_of_line.setdefault(position, {})

    def written(
        self, name: str, inputs: Sequence[Node], carried: list[Node], carried_on: list[Node]
    ) -> tuple[str, dict[str, Any]]:
        """Return the source of the function, and its globals."""
        names = self._writer.names
        parameters = [names[node] for node in inputs]
        is_entry = self._position == ENTRY
        state = self._namespace.create_name("_state", None)
        if is_entry:
            self._lines += [f"def {name}({', '.join(['self', *parameters])}):"]
            self._lines += [f"    if not {self._is_checked}({', '.join(parameters)}):", "        return None"]
            if self._guards.outer:
                self._lines.append(f"    {self._checker}.check_outer()")
        else:
            self._lines += [f"def {name}({', '.join(['self', state, *parameters])}):"]
            self._lines += [f"    if {state} is None:", "        return None"]
            if carried:
                self._lines.append(f"    _, {', '.join([names[node] for node in carried])} = {state}")
        if is_entry and self._keeps_state:
            given = "".join([f"{each}, " for each in parameters])
            self._lines.append(f"    {state} = ({self._checker}.keep(self, ({given})),)")
        self._write_body(parameters, state)
        kept = f"{state}[0]" if self._keeps_state else "None"
        self._lines.append(f"    return ({', '.join([kept, *[names[node] for node in carried_on]])},)")
        return "\n".join(self._lines) + "\n", self._globals.table

    def _write_body(self, parameters: list[str], state: str) -> None:
        work = self._plan.checks.get(self._position, [])
        if not work:
            return
        if not self._plan.alone.isdisjoint(work):
            self._lines.append(f"    {ALONE} = {{}}")
        self._lines.append("    try:")
        for each in work:
            guard = each if isinstance(each, int) else self._plan.needed_by[each]
            if isinstance(each, int):
                lines = self._check(each, parameters)
            elif each.target is bool and self._guards[guard].is_assumed:
                value = self._name_of(each.all_input_nodes[0])
                lines = [f"{self._writer.names[each]} = {self._checker}.truth({value})"]
            else:
                for read in each.all_input_nodes:
                    self._name_of(read)
                lines = [self._writer.statement(each)]
            for line in lines:
                self._lines.append(f"        {line}")
                self._guard_of_line[len(self._lines)] = guard
        given = state if self._keeps_state else "None"
        self._lines += [
            "    except Exception as error:",
            f"        {self._checker}.failed(self, {given}, error, {self._position})",
            "        return None",
        ]

    def _name_of(self, node: Node) -> str:
        """Return the name of a value of the conditions. A value with a twin has the name of its twin."""
        names = self._writer.names
        if node not in names:
            names[node] = names[self._plan.value_of(node)]
        return names[node]

    def _check(self, index: int, parameters: list[str]) -> list[str]:
        guard = self._guards[index]
        if index in self._plan.alone:
            inputs = "".join([f"{each}, " for each in parameters])
            computed = f"{self._checker}.alone(self, {index}, ({inputs}), {ALONE})"
            return [computed if guard.caught else f"{self._checker}.check(self, {index}, {computed})"]
        if guard.caught:
            return ["pass"]  # the value is there: its call raised no error
        asked = self._plan.asked[index]
        found = self._name_of(asked)
        if guard.value is None:
            condition = f"{found} is not None"
        elif type(guard.value) is torch.Size:
            condition = f"{found} != {tuple(guard.value)!r}"
        elif type(guard.value) is bool and getattr(asked.target, "__name__", asked.target) in _TRUTHS:
            condition = f"not {found}" if guard.value else found
        elif type(guard.value) is bool and is_path(asked):
            condition = f"{found} is not {guard.value}"  # the traced code may ask with `is`
        elif type(guard.value) in _LITERALS:
            condition = f"{found} != {guard.value!r}"
        elif isinstance(guard.value, (type, torch.device)):
            condition = f"{found} != {self._globals.add(f'_expected_{index}', guard.value)}"
        else:
            return [f"{self._checker}.check(self, {index}, {found})"]
        return [f"if {condition}:", f"    {self._checker}.refuse(self, {index}, {found})"]
