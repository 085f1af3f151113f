"""Errors of fxcore. Each is also the builtin class that torch.fx raises in its place."""

from __future__ import annotations


class FxError(Exception):
    """Base of all errors that fxcore raises on purpose."""


class TraceError(FxError, ValueError):
    """Tracing met Python code that cannot take a symbolic value."""


class TraceLengthError(FxError, RuntimeError):
    """Tracing met `len()` of a symbolic value."""


class TraceArgumentError(FxError, NotImplementedError):
    """A value cannot be an argument of a node."""


class TraceCallError(FxError, TypeError):
    """A function called while tracing takes no proxy in this place."""


class ExampleError(FxError, TypeError):
    """Example inputs do not fit the traced function."""


class LeafError(FxError, ValueError):
    """Modules named as leaves do not exist."""


class VerificationError(FxError, AssertionError):
    """A graph that was traced with an example differs from its model."""


class GuardError(FxError, ValueError):
    """Inputs break a guard of the graph."""


class TracerMismatchError(FxError, RuntimeError):
    """Values of two tracers met in one call."""


class ModuleLookupError(FxError, NameError):
    """A module or parameter met in tracing is not part of the root module."""


class WrapError(FxError, RuntimeError):
    """`wrap` received an object that it cannot wrap."""


class WrapPlaceError(FxError, NotImplementedError):
    """`wrap` was called outside the top level of a module."""


class GraphError(FxError, RuntimeError):
    """A graph is not well-formed, or an edit would make it malformed."""


class NodeTargetError(FxError, ValueError):
    """A node's target does not fit its opcode."""


class GraphArgumentError(FxError, AssertionError):
    """A function of fxcore received arguments that it does not take."""


class ImmutableError(FxError, TypeError):
    """An argument container of a node was edited in place."""


class CodeGenerationError(FxError, RuntimeError):
    """A graph cannot be written as Python code."""


class UnknownOpcodeError(CodeGenerationError, NotImplementedError):
    """A node's opcode is not one of FX's six."""


class InterpreterError(FxError, RuntimeError):
    """A graph cannot be run node by node."""


class InteropError(FxError, TypeError):
    """fxcore and torch.fx cannot exchange an object."""


class PassError(FxError, RuntimeError):
    """A pass failed, or passes cannot run in the given order."""


class EvalModeError(PassError, AssertionError):
    """A pass for inference met a layer in training mode."""


class ValueRangeError(FxError, ValueError):
    """A guarded value is NaN, infinite or out of range."""


class PassArgumentError(FxError, TypeError):
    """A pass, or an argument of a pass manager, has the wrong kind."""
