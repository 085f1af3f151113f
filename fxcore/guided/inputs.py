"""The example of a trace: arguments of the traced function, and values of its parameters."""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxcore.codegen.codegen import KeywordCodeGen
from fxcore.errors import ExampleError, TraceArgumentError
from fxcore.tracing.code_facts import read_names

_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class ExampleInputs:
    """The arguments that an example gives to a function, and the values of its parameters."""

    def __init__(self, function: FunctionType, owner: Any, args: Any, kwargs: Mapping[str, Any] | None) -> None:
        """Bind example inputs to parameters. `owner`, if it is not None, is the function's `self`.

        Raises ExampleError (a TypeError) if they do not fit.
        """
        self._owner = () if owner is None else (owner,)
        self._args, self._kwargs = copied_example((positional_of(args), dict(kwargs or {})))
        signature = inspect.signature(function)
        try:
            bound = signature.bind(*self._owner, *self._args, **self._kwargs)
        except TypeError as error:
            raise ExampleError(
                f"example_inputs do not fit {function.__qualname__}{signature}: {error}; give a tuple of its "
                "positional arguments, and example_kwargs= for those that are given by name"
            ) from None
        self._function = inspect.unwrap(function)
        self._is_decorated = self._function is not function
        given = set(bound.arguments)
        bound.apply_defaults()
        self._parameters = list(signature.parameters.values())[len(self._owner) :]
        self.by_target = {_target_of(each): bound.arguments[each.name] for each in self._parameters}
        self.left_at_default = {
            _target_of(each) for each in self._parameters if each.name not in given and each.kind not in _STARS
        }
        self.given_instead_of_none = {
            _target_of(each) for each in self._parameters if each.name in given and each.default is None
        }

    def arguments_for_root(self, tracer: Any) -> tuple[list[Any], dict[str, Any]]:
        """Add a placeholder for each parameter; return the arguments for a call in the form of the example."""
        proxies = {each.name: self._placeholder(tracer, each) for each in self._parameters}
        kinds = [each.kind for each in self._parameters]
        if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
            tracer.graph.set_codegen(KeywordCodeGen(kinds.index(inspect.Parameter.KEYWORD_ONLY)))
        read = read_names(self._function.__code__)
        for each in self._parameters:
            # A decorator may read all of them.
            if each.kind in _STARS and (self._is_decorated or each.name in read):
                count = len if each.kind is each.VAR_POSITIONAL else list
                tracer.questions.asked(count, proxies[each.name])
        positional: list[Any] = []
        for each in self._parameters:
            missing = len(self._args) - len(positional)
            if missing and each.kind is each.VAR_POSITIONAL:
                positional += [operator.getitem(proxies[each.name], index) for index in range(missing)]
            elif missing:
                positional.append(proxies[each.name])
        others = next((each.name for each in self._parameters if each.kind is each.VAR_KEYWORD), "")
        keywords = {
            name: proxies[name] if name in proxies and name != others else operator.getitem(proxies[others], name)
            for name in self._kwargs
        }
        return [*self._owner, *positional], keywords

    def _placeholder(self, tracer: Any, parameter: inspect.Parameter) -> Any:
        default = () if parameter.default is parameter.empty else (parameter.default,)
        annotation = None if parameter.annotation is parameter.empty else parameter.annotation
        if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(default)):
            raise _refused_default(parameter)  # it is written before the code that could read a tensor of the model
        try:
            tracer.create_arg(default)
        except TraceArgumentError as error:
            raise _refused_default(parameter) from error
        return tracer.create_proxy("placeholder", _target_of(parameter), default, {}, type_expr=annotation)


def positional_of(example_inputs: Any) -> tuple[Any, ...]:
    """Return the positional arguments of an example: a tuple or list of them, or the only one. None is no argument."""
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs)
    return () if example_inputs is None else (example_inputs,)


def _refused_default(parameter: inspect.Parameter) -> TraceArgumentError:
    return TraceArgumentError(
        f"the default of parameter {parameter.name!r} is no argument of a node: {parameter.default!r:.200}\n"
        "Give the parameter the default None, and take this value in the body of the function"
    )


def _target_of(parameter: inspect.Parameter) -> str:
    return _STARS.get(parameter.kind, "") + parameter.name


def copied_example(value: Any) -> Any:
    """Return a copy of an example. Callers may change the tensors of the copy in place."""
    memo: dict[int, Any] = {}
    try:
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                memo[id(leaf)] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
        return copy.deepcopy(value, memo)
    except Exception:  # an object that cannot be copied is used itself
        return value
