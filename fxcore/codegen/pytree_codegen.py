"""Code between the nested inputs and outputs of a function and the flat inputs and outputs of its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch.utils import _pytree as pytree

from fxcore._pytree import spec_children
from fxcore.codegen.codegen import CodeGen, described_items


class PyTreeInfo(NamedTuple):
    """The nesting of a traced function's arguments and result."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class PyTreeCodeGen(CodeGen):
    """Writer for a graph whose placeholders are the leaves of nested arguments."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """Return the leaves of the inputs, in the order of the placeholders."""
        return pytree.tree_leaves(inputs)

    def process_outputs(self, outputs: Any) -> Any:
        """Nest the graph's flat outputs as the traced function did."""
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return a definition with the original parameters, then the lines that flatten them."""
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        parameters = self.pytree_info.orig_args
        if parameters and parameters[0] == "self":
            free_vars.insert(0, "self")
        definition = super().gen_fn_def(parameters[:], maybe_return_annotation, expanded_def=expanded_def)
        if free_vars:
            definition += self.gen_var_bindings(parameters, free_vars, expanded_def)
        return definition

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """Return the lines that bind `free_vars` to the leaves of `fn_args`."""
        names = [_name_in(variable) for variable in free_vars]
        flatten = f"fx_pytree.tree_flatten_spec({self._nested_arguments(fn_args)}, self._in_spec)"
        return f"{_annotations(free_vars, expanded_def)}\n    {', '.join(names)}, = {flatten}"

    def _nested_arguments(self, fn_args: list[str]) -> str:
        spec = self.pytree_info.in_spec
        if not _is_args_and_kwargs(spec):
            return f"[{', '.join(fn_args)}]"
        args, kwargs = spec_children(spec)
        positional = args.num_children
        originals = self.pytree_info.orig_args
        keywords = zip(kwargs.context, originals[positional:], strict=False)
        by_name = "{" + ", ".join([f"'{key}':{value}" for key, value in keywords]) + "}"
        return f"([{', '.join(originals[:positional])}], {by_name})"

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Return a return statement that nests the outputs as the traced function did."""
        if not (self.pytree_info and self.pytree_info.out_spec):
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        if descs is not None and isinstance(output_args, (list, tuple)):
            items = described_items(output_args, descs, repr_fn or repr)
        else:
            items = (repr_fn or repr)(output_args)
        return f"return pytree.tree_unflatten({items}, self._out_spec)"


def _is_args_and_kwargs(spec: pytree.TreeSpec) -> bool:
    return spec.type is tuple and [child.type for child in spec_children(spec)] == [tuple, dict]


def _name_in(variable: str) -> str:
    """Return the name in the source of a parameter with annotation, default and comment."""
    return variable.split(":")[0].split("#")[0].split(" = ")[0]


def _annotations(free_vars: list[str], expanded_def: bool) -> str:
    """Return the annotations as separate statements, because Python allows none in `a, b = ...`."""
    annotated = [variable for variable in free_vars if ":" in variable.split(" = ")[0]]
    if not annotated:
        return ""
    if expanded_def:
        return "\n    " + "\n    ".join(annotated)
    return "\n    " + "".join([f"{variable}; " for variable in annotated]) + "\n"
