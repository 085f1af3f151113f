"""Interpreter and Transformer under torch.fx's name for the file."""

from __future__ import annotations

from fxcore.interpretation import Interpreter
from fxcore.transformer import Transformer

__all__ = ["Interpreter", "Transformer"]
