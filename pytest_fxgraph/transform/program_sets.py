"""Managers of several exported programs, known by their methods: executorch's EdgeProgramManager is one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pytest_fxgraph.captures.subjects import is_exported_program, programs_of
from pytest_fxgraph.errors import SubjectError


def is_program_set(subject: Any) -> bool:
    """Return whether a subject has `methods` and `exported_program(name)`."""
    return hasattr(type(subject), "methods") and callable(getattr(subject, "exported_program", None))


def with_programs(subject: Any, programs: Mapping[str, Any]) -> Any:
    """Return a copy of a manager that holds other programs under the same names.

    Raises SubjectError if it keeps its programs elsewhere than in dicts among its attributes.
    """
    made = copy.copy(subject)
    found = False
    for name, value in vars(subject).items():
        if isinstance(value, dict) and value and all(is_exported_program(each) for each in value.values()):
            vars(made)[name] = {key: programs.get(key, each) for key, each in value.items()}
            found = True
    if not found:
        raise SubjectError(
            f"cannot copy a {type(subject).__name__}: none of its attributes is a dict of its exported programs; "
            "hand over one of them, as its exported_program(name) returns it"
        )
    return made


def programs_in(subject: Any) -> list[str]:
    """List the names of a manager's programs; [""] for a subject that is one graph."""
    return list(programs_of(subject) or {}) if is_program_set(subject) else [""]


def program_at(subject: Any, name: str) -> Any:
    """Return a manager's program; a subject that is one graph, under "", is returned itself.

    Raises SubjectError if there is no such program.
    """
    if not is_program_set(subject):
        return subject
    programs = programs_of(subject) or {}
    if name not in programs:
        raise SubjectError(f"the {type(subject).__name__} has no program {name!r}; it has {', '.join(programs)}")
    return programs[name]


def graphs_in(subject: Any) -> list[Any]:
    """List the graphs of a manager's programs; of a graph module or program, its own graph."""
    return [program_at(subject, name).graph for name in programs_in(subject)]
