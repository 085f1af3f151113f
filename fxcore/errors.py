"""Errors of fxcore. Each is also the builtin class that torch.fx raises in its place."""

from __future__ import annotations


class FxError(Exception):
    """Base of everything that fxcore raises on purpose."""


class TraceError(FxError, ValueError):
    """Tracing met Python that a symbolic value cannot go through."""


class TraceLengthError(FxError, RuntimeError):
    """Tracing met `len()` of a symbolic value."""


class TraceArgumentError(FxError, NotImplementedError):
    """A value cannot be an argument of a node."""


class TraceCallError(FxError, TypeError):
    """A function that is called while tracing takes no proxy in this place."""


class ExampleError(FxError, TypeError):
    """Example inputs do not fit the function that is traced."""


class LeafError(FxError, ValueError):
    """Modules that are to be leaves are not there."""


class VerificationError(FxError, AssertionError):
    """A graph that was traced with an example does not do what its model does."""


class GuardError(FxError, ValueError):
    """Inputs break a guard of the graph."""


class TracerMismatchError(FxError, RuntimeError):
    """Values of two tracers met in one call."""


class ModuleLookupError(FxError, NameError):
    """A module or parameter met in tracing is not part of the root module."""


class WrapError(FxError, RuntimeError):
    """`wrap` was given something that it cannot wrap."""


class WrapPlaceError(FxError, NotImplementedError):
    """`wrap` was called elsewhere than at the top level of a module."""


class GraphError(FxError, RuntimeError):
    """A graph is not well-formed, or an edit would make it so."""


class NodeTargetError(FxError, ValueError):
    """A node's target is not of the kind that its opcode wants."""


class GraphArgumentError(FxError, AssertionError):
    """A function of fxcore was called with arguments that it does not take."""


class ImmutableError(FxError, TypeError):
    """An argument container of a node was edited in place."""


class CodeGenerationError(FxError, RuntimeError):
    """A graph cannot be written as Python code."""


class UnknownOpcodeError(CodeGenerationError, NotImplementedError):
    """A node's opcode is none of FX's six."""


class InterpreterError(FxError, RuntimeError):
    """A graph cannot be run node by node."""


class InteropError(FxError, TypeError):
    """An object is none that fxcore and torch.fx can exchange."""


class PassError(FxError, RuntimeError):
    """A pass failed, or passes cannot run in the order that they are given in."""


class EvalModeError(PassError, AssertionError):
    """A pass that is for inference met a layer in training mode."""


class ValueRangeError(FxError, ValueError):
    """A value that is guarded is NaN, infinite or out of range."""


class PassArgumentError(FxError, TypeError):
    """A pass, or something for a pass manager, is not of the kind that it must be."""
