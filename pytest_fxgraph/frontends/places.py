"""Places in the user's code: what a message shows, and the part of it that a golden holds."""

from __future__ import annotations

import inspect
import linecache
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.subjects.tracing_failure import short_path

# Dynamo goes on after a break in a function that it makes, and names after the one it left.
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+\Z")
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|\Z)|\A\d+(?=\.|\Z)")


@dataclass(frozen=True)
class Place:
    """A line of the user's code, and the module of the model whose code it is."""

    file: str
    line: int
    function: str
    source: str
    module: str = ""  # "encoder.blocks.*" where the class of several modules has it; "" for the model, or for no module

    @property
    def text(self) -> str:
        """Return what stays the same when lines move: `encoder.forward: x = x.item()`."""
        return f"{f'{self.module}.' if self.module else ''}{self.function}: {self.source}"

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}, in {self.function}: {self.source}"


class UserCode:
    """Finds places in the code of one model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._paths: dict[CodeType, list[str]] = {}
        if isinstance(model, nn.Module):
            for path, module in model.named_modules():
                for code in _codes_of(type(module)):
                    self._paths.setdefault(code, []).append(path)

    def place(self, file: str, line: int, function: str) -> Place:
        """Return the place of a line, with the module whose class has the function."""
        name = function_name(function)
        source = linecache.getline(file, line).strip()
        return Place(file, line, name, source, self._module(file, line, name))

    @property
    def forward(self) -> Place:
        """The place of the model's own function."""
        function = type(self._model).forward if isinstance(self._model, nn.Module) else self._model
        function = inspect.unwrap(getattr(function, "__func__", function))
        code = getattr(function, "__code__", None)
        if code is None:
            return Place("", 0, str(getattr(function, "__name__", "forward")), "")
        return self.place(code.co_filename, code.co_firstlineno, code.co_name)

    def has(self, place: Place) -> bool:
        """Tell whether a place is in a function of one of the model's modules."""
        return any(code.co_filename == place.file and code.co_name == place.function for code in self._paths)

    def _module(self, file: str, line: int, function: str) -> str:
        begun = [
            (code.co_firstlineno, paths)
            for code, paths in self._paths.items()
            if code.co_filename == file and code.co_name == function and code.co_firstlineno <= line
        ]
        return _common_path(max(begun, key=lambda pair: pair[0])[1]) if begun else ""


def is_of_torch(file: str) -> bool:
    """Tell whether a file is one of torch's own."""
    return os.path.abspath(file).startswith(_TORCH)


def function_name(name: str) -> str:
    """Return the name of the function that the user wrote, of one that Dynamo made from it."""
    resumed = _RESUMED.match(name)
    return name if resumed is None else function_name(resumed[1])


def _codes_of(cls: type) -> Iterator[CodeType]:
    for base in cls.__mro__:
        if base is nn.Module:
            return
        for value in vars(base).values():
            code = getattr(getattr(value, "__func__", value), "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _common_path(paths: list[str]) -> str:
    """Return the path of one module, or what the paths of several have in common: `blocks.*`."""
    patterns = dict.fromkeys(paths if len(paths) == 1 else [_NUMBER.sub("*", path) for path in paths])
    return ", ".join(patterns)
