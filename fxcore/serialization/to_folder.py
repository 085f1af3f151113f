"""A graph module as a folder with a Python package."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fxcore.codegen.globals import CUSTOM_BUILTINS
from fxcore.serialization.pickling import is_importable

# The repr of these modules is a call of their constructor.
_REPR_IS_CONSTRUCTOR = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
)


def write_module_folder(
    module: nn.Module,
    code: str,
    folder: str | os.PathLike[str],
    class_name: str,
    names: Mapping[str, Any],
    definitions: Sequence[str] = (),
) -> None:
    """Write `module`, with `code` as the source of its forward, so that `from <folder> import <class_name>` finds it.

    `names` are the globals of the code, and `definitions` are further statements before the class. Children that have
    no constructor call as repr are pickled beside it. Warnings name them, and globals that cannot be imported.
    """
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    torch.save(module.state_dict(), folder / "state_dict.pt")
    pickled: list[str] = []
    lines = [_child_line(folder, name, child, pickled) for name, child in module.named_children()]
    lines += [_buffer_line(name, buffer) for name, buffer in module._buffers.items() if buffer is not None]
    lines += [_parameter_line(name, value) for name, value in module._parameters.items() if value is not None]
    lines.append(f"self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
    imports, missing = _imports(names)
    definitions = [*imports, *definitions]
    (folder / "module.py").write_text(_module_source(class_name, definitions, lines, code), encoding="utf-8")
    (folder / "__init__.py").write_text("from .module import *", encoding="utf-8")
    if pickled:
        warnings.warn(
            f"Was not able to save the following children modules as reprs -saved as pickled files instead: {pickled}",
            stacklevel=3,
        )
    if missing:
        warnings.warn(
            f"to_folder cannot write an import of {', '.join(missing)}: no module that others can import has this "
            f"object under its own name. Define the name in {folder / 'module.py'} before the class",
            stacklevel=3,
        )


def _imports(names: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the statements that define the globals of code, and the names that no import gives."""
    lines: list[str] = []
    missing: list[str] = []
    for name, value in names.items():
        path = getattr(value, "__qualname__", "")
        if name in CUSTOM_BUILTINS or name == "torch":
            continue
        if not path or value.__module__ == "__main__" or not is_importable(value):
            missing.append(name)
        elif "." in path:
            lines += [f"import {value.__module__}", f"{name} = {value.__module__}.{path}"]
        else:
            lines.append(f"from {value.__module__} import {path} as {name}")
    return lines, missing


def _module_source(class_name: str, definitions: Sequence[str], init_lines: list[str], code: str) -> str:
    imports = "\n".join([builtin.import_str for builtin in CUSTOM_BUILTINS.values()])
    defined = "".join([f"{line}\n" for line in definitions])
    init = "\n".join([f"        {line}" for line in init_lines])
    forward = "\n".join([f"    {line}" if line.strip() else "" for line in code.split("\n")])
    return (
        f"\nimport torch\n{imports}\n\nfrom torch.nn import *\n"
        f"{defined}class {class_name}(torch.nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n{init}\n{forward}\n"
    )


def _child_line(folder: Path, name: str, child: nn.Module, pickled: list[str]) -> str:
    if type(child) in _REPR_IS_CONSTRUCTOR:
        return f"setattr(self, '{name}', {child!r})"
    file = folder / f"{name}.pt"
    torch.save(child, file)
    pickled.append(name)
    description = repr(child).replace("\r", " ").replace("\n", " ")
    return f"setattr(self, '{name}', torch.load(r'{file}', weights_only=False)) # {description}"


def _buffer_line(name: str, buffer: torch.Tensor) -> str:
    empty = f"torch.empty({list(buffer.shape)}, dtype={buffer.dtype})"
    return f"self.register_buffer('{name}', {empty})"


def _parameter_line(name: str, value: torch.Tensor) -> str:
    empty = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
    return f"setattr(self, '{name}', torch.nn.Parameter({empty}))"
