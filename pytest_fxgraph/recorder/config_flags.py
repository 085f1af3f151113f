"""Flags of torch's compiler for one run. `fxgraph bisect --config` reads them; its child loads this file as a plugin.

The plugin sets the flags when the tests import torch, before other modules of torch read them.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pluggy

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recorder.replacements import Replacements
from pytest_fxgraph.replay.interpreters import told_by

_MODULES = ("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config")
_hookimpl = pluggy.HookimplMarker("pytest")


class ConfigFlag(NamedTuple):
    """A flag with the value to set."""

    module: str
    name: str  # in its module; it may have dots
    value: object

    @classmethod
    def read(cls, text: str) -> ConfigFlag:
        """Read `NAME=VALUE`. Raises RecordingError for another form."""
        name, _, value = (part.strip() for part in text.partition("="))
        module = next((each for each in _MODULES if name.startswith(f"{each}.")), "")
        try:
            if module or name.isidentifier():
                return cls(module or _MODULES[0], name.removeprefix(f"{module}."), ast.literal_eval(value))
            reason = f"{name or 'nothing'} lies in none of {', '.join(_MODULES)}; give the whole name"
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            reason = f"{value or 'nothing'} is no literal of Python; write NAME=False or, for a text, 'NAME=\"VALUE\"'"
        raise RecordingError(f"cannot read the flag {text}: {reason}")

    def set(self, config: ModuleType) -> None:
        """Set the flag in its module."""
        setattr(config, self.name, self.value)

    def problem(self) -> str:
        """Return the reason why this torch cannot have the flag; "" if it can. Imports torch."""
        config: Any = importlib.import_module(self.module)
        if self.name not in config._config:
            near = get_close_matches(self.name, config._config)
            return f"{self.module} has no flag {self.name}; names like it: {', '.join(near) or 'none'}"
        hint = config.get_type(self.name)  # of a flag without a type: that of its default, often None
        with suppress(TypeError):  # torch names a type that isinstance does not know, such as Literal
            if hint is not type(None) and not isinstance(self.value, (hint, type(getattr(config, self.name)))):
                return f"{self.value!r} is no {getattr(hint, '__name__', hint)}"
        return ""


def read_flags(given: Sequence[str]) -> list[str]:
    """Return flags, those in files (`@FILE`) included. Raises RecordingError for a flag of another form."""
    flags = []
    for text in given:
        if not text.startswith("@"):
            flags.append(text)
            continue
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise RecordingError(f"cannot read the flags in {text[1:]}: {reason}; name a file of flags") from None
        flags += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for text in flags:
        ConfigFlag.read(text)
    return list(dict.fromkeys(flags))


def check_flags(flags: Sequence[str], python: str) -> None:
    """Raise RecordingError if the torch of an interpreter lacks a flag, or if a flag takes no such value."""
    program = f"import json, sys, {__name__} as flags; print(json.dumps(flags.problems(sys.argv[1:])))"
    found = told_by(python, program, *flags)
    if found:
        raise RecordingError(f"cannot set flags in the torch of {python}: {'; '.join(found)}")


def problems(flags: Sequence[str]) -> list[str]:
    """Return a sentence for each flag that this torch cannot have. Imports torch."""
    found = ((text, ConfigFlag.read(text).problem()) for text in flags)
    return [f"{text}: {problem}" for text, problem in found if problem]


def arguments_for(flags: Sequence[str]) -> list[str]:
    """Return the arguments with which pytest sets flags."""
    return ["-p", __name__, *(f"--fx-config={flag}" for flag in flags)] if flags else []


def pytest_addoption(parser: Any) -> None:
    """Add the option of the child."""
    parser.addoption("--fx-config", metavar="NAME=VALUE", action="append", help="set a flag of torch's compiler")


@_hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Set the flags in imported modules now, and in others right after their import: a conftest may import torch."""
    replacements = Replacements()
    for flag in map(ConfigFlag.read, early_config.known_args_namespace.fx_config or ()):
        replacements.after_import(flag.module, flag.set)
    replacements.begin()
    early_config.add_cleanup(replacements.end)
