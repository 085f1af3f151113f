"""Generated source that tracebacks, debuggers and TorchScript can show."""

from __future__ import annotations

import linecache
import weakref
from collections import OrderedDict
from types import CodeType
from typing import Any

GENERATED = "<eval_with_key>"  # the beginning of the file names of generated code, as in torch.fx
# A code object is small beside its graph, and the graphs of one model repeat.
_MOST_CODE_OBJECTS = 256


class SourceCache:
    """Compiler of generated source. Each source has its own file name, under which `linecache` finds the text."""

    def __init__(self) -> None:
        self._next_id = 0
        self._code_objects: OrderedDict[str, CodeType] = OrderedDict()

    def run(
        self,
        source: str,
        global_names: dict[str, Any],
        origin: dict[str, Any] | None = None,
        *,
        shown: str | None = None,
    ) -> None:
        """Execute `source` with `global_names`; the source may add to them.

        Tracebacks show the lines of `shown` in place of the executed lines. `origin` may hold `co_filename`,
        `co_firstlineno` and `co_name` of the traced function; they become part of the file name.
        """
        file_name = self._file_name(origin or {})
        code = self._compiled(source)
        functions = _functions(code)
        exec(code.replace(co_filename=file_name, co_consts=_renamed(code.co_consts, file_name)), global_names)
        text = source if shown is None else shown
        linecache.cache[file_name] = (len(text), None, [f"{line}\n" for line in text.splitlines()], file_name)
        for name in functions:
            function = global_names.get(name)
            if function is not None:
                weakref.finalize(function, linecache.cache.pop, file_name, None).atexit = False

    def forget_compiled(self) -> None:
        """Drop the kept code objects. Functions made from them live on."""
        self._code_objects.clear()

    def _file_name(self, origin: dict[str, Any]) -> str:
        key = f"{GENERATED}.{self._next_id}"
        self._next_id += 1
        if {"co_filename", "co_firstlineno", "co_name"} <= origin.keys():
            key += f" from {origin['co_filename']}:{origin['co_firstlineno']} in {origin['co_name']}"
        return key

    def _compiled(self, source: str) -> CodeType:
        code = self._code_objects.get(source)
        if code is None:
            # dont_inherit: the __future__ import of this file must not turn the annotations into text.
            code = compile(source, GENERATED, "exec", dont_inherit=True)
            self._code_objects[source] = code
            if len(self._code_objects) > _MOST_CODE_OBJECTS:
                self._code_objects.popitem(last=False)
        else:
            self._code_objects.move_to_end(source)
        return code


def _functions(code: CodeType) -> list[str]:
    return [constant.co_name for constant in code.co_consts if isinstance(constant, CodeType)]


def _renamed(constants: tuple[Any, ...], file_name: str) -> tuple[Any, ...]:
    """Return constants whose nested functions have the file name too."""
    return tuple(
        constant.replace(co_filename=file_name, co_consts=_renamed(constant.co_consts, file_name))
        if isinstance(constant, CodeType)
        else constant
        for constant in constants
    )


SOURCES = SourceCache()
