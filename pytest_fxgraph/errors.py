"""Errors of goldens, files, options and the command. This file imports nothing."""


class GateError(Exception):
    """The gate could not do its work: what, to which file or option, why, and what to do now.

    A mismatch between a graph and its golden is not a GateError but an AssertionError.
    """


class SubjectError(GateError, TypeError):
    """What was handed over is not a graph, and no adapter knows how to make it one."""


class GoldenError(GateError):
    """A golden file cannot be used."""


class GoldenMissingError(GoldenError, FileNotFoundError):
    """There is no golden file where one was asked for."""


class GoldenFormatError(GoldenError, ValueError):
    """A golden file is not what its format promises: corrupt, foreign, too large or too deep."""


class GoldenVersionError(GoldenFormatError):
    """A golden file was written by a newer format than this release reads."""


class GoldenNameError(GoldenError, ValueError):
    """A golden's name is refused: it leaves the golden folder, or has a meaning of its own."""


class GoldenWriteError(GoldenError, OSError):
    """A golden file could not be written; the file that was there before is whole."""


class DocumentError(GateError):
    """A graph cannot be written down as a golden: it holds something without a stable text."""


class LevelError(GateError, ValueError):
    """A level of comparison that does not exist."""


class CaptureError(GateError, ValueError):
    """No graph could be made of a model: tracing failed, or its example inputs do not run through it."""


class InputsError(GateError, TypeError):
    """Inputs were handed over in another form than a tuple of positional arguments or a lone tensor."""


class ReportError(GateError, ValueError):
    """A report of a run cannot be read or written."""
