"""A graph module as a folder with a Python package."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import torch
from torch import nn

from fxcore.codegen.globals import CUSTOM_BUILTINS

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


def write_module_folder(module: nn.Module, code: str, folder: str | os.PathLike[str], class_name: str) -> None:
    """Write `module`, with `code` as the source of its forward, so that `from <folder> import <class_name>` finds it.

    Children that have no constructor call as repr are pickled beside it; a warning names them.
    """
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    torch.save(module.state_dict(), folder / "state_dict.pt")
    pickled: list[str] = []
    lines = [_child_line(folder, name, child, pickled) for name, child in module.named_children()]
    lines += [_buffer_line(name, buffer) for name, buffer in module._buffers.items() if buffer is not None]
    lines += [_parameter_line(name, value) for name, value in module._parameters.items() if value is not None]
    lines.append(f"self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
    (folder / "module.py").write_text(_module_source(class_name, lines, code), encoding="utf-8")
    (folder / "__init__.py").write_text("from .module import *", encoding="utf-8")
    if pickled:
        warnings.warn(
            f"Was not able to save the following children modules as reprs -saved as pickled files instead: {pickled}",
            stacklevel=3,
        )


def _module_source(class_name: str, init_lines: list[str], code: str) -> str:
    imports = "\n".join([builtin.import_str for builtin in CUSTOM_BUILTINS.values()])
    init = "\n".join([f"        {line}" for line in init_lines])
    forward = "\n".join([f"    {line}" if line.strip() else "" for line in code.split("\n")])
    return (
        f"\nimport torch\n{imports}\n\nfrom torch.nn import *\n"
        f"class {class_name}(torch.nn.Module):\n"
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
