"""Code for a function with parameters that are given by name alone."""

from __future__ import annotations

from fxcore.codegen.codegen import CodeGen


class KeywordCodeGen(CodeGen):
    """Writes the parameters after a number of them as keyword-only ones.

    torch.fx writes all as positional ones, which is no Python where one without a default follows one that has one.
    """

    def __init__(self, positional: int) -> None:
        """Write `positional` parameters, `self` not counted, as they always are."""
        super().__init__()
        self._positional = positional

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the start of the function, up to and with the colon, with `*` before the first keyword-only one."""
        free_vars.insert(self._positional, "*")
        return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
