"""The words that a user chooses from: as types for who writes them, as tuples for who checks them."""

from __future__ import annotations

from typing import Literal, get_args

Level = Literal["exact", "structure", "ops", "signature"]
ConstantForm = Literal["exact", "close", "shape"]
CodeForm = Literal["always", "exact"]
Mode = Literal["eval", "train"]
Trace = Literal["fxcore", "torch", "export"]

LEVELS: tuple[Level, ...] = get_args(Level)  # of comparison, those that this release has, the strictest first
CONSTANT_FORMS: tuple[ConstantForm, ...] = get_args(ConstantForm)  # how floats in arguments and constants are compared
CODE_FORMS: tuple[CodeForm, ...] = get_args(CodeForm)  # when a golden holds the generated code
MODES: tuple[Mode, ...] = get_args(Mode)  # in which a model is run
TRACES: tuple[Trace, ...] = get_args(Trace)  # how a module becomes the graph that a pass is given
