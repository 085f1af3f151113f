"""Errors of goldens, files, options and the command. This file imports nothing."""


class GateError(Exception):
    """Something could not be done: the message says what, to which file or option, why, and what to do now.

    A mismatch between a graph and its golden is not a GateError but an AssertionError.
    """


class SubjectError(GateError, TypeError):
    """An object is no graph, module or function, and no `pytest_fxgraph_adapt` hook turns it into one."""


class GoldenError(GateError):
    """A golden file cannot be used."""


class GoldenMissingError(GoldenError, FileNotFoundError):
    """There is no golden file where one was asked for."""


class GoldenFormatError(GoldenError, ValueError):
    """A golden file does not have the format of goldens: it is corrupt, foreign, too large or too deep."""


class GoldenVersionError(GoldenFormatError):
    """A golden file was written by a newer format than this release reads."""


class GoldenNameError(GoldenError, ValueError):
    """A golden cannot have this name: it leaves the golden folder, or it is reserved."""


class GoldenWriteError(GoldenError, OSError):
    """A golden file could not be written; the file that was there before is whole."""


class DocumentError(GateError):
    """A graph cannot be written as a golden: it holds something whose text changes from run to run."""


class LevelError(GateError, ValueError):
    """A level of comparison that does not exist."""


class ChoiceError(GateError, ValueError):
    """A check or cost that does not exist was asked for, or a tolerance for a path at which nothing is compared."""


class CaptureError(GateError, ValueError):
    """No graph could be made of a model: tracing failed, or its example inputs do not run through it."""


class InputsError(GateError, TypeError):
    """Inputs are neither a tuple of positional arguments nor one tensor."""


class ReportError(GateError, ValueError):
    """A report of a run cannot be read or written."""
