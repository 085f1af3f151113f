"""One change of a state, as facts: place, kind, old and new object. The words for users are made elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

# Stands for an object that is not there.
MISSING = object()


class Change(NamedTuple):
    """A difference between a snapshot and the present state.

    `what` is "held" (another object), "values" (the same tensor, array or generator with another content), "order" (of
    a dict; `before` and `after` are its keys), "class", "function" (of a class), "setting" (of torch), or a fact of a
    tensor: "strides", "requires_grad", "grad", "_backward_hooks", "_post_accumulate_grad_hooks".
    """

    path: str  # "conv.weight", "config.sizes[2]", "the default dtype"
    what: str
    before: Any = MISSING
    after: Any = MISSING
    role: str = ""  # of the object: "parameter", "buffer", "attribute", "module", "array", "generator", ...


class TensorFact(NamedTuple):
    """A difference of one tensor beside its values, by the id of the tensor."""

    key: int
    what: str
    before: Any
    after: Any
