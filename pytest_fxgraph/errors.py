"""Errors of goldens, files, options, checks and the command. This file imports nothing."""


class GateError(Exception):
    """A failed action. The message states the action, the file or option, the reason and the next step.

    A mismatch is no GateError but an AssertionError, because a test framework counts an AssertionError as a failure.
    """


class SubjectError(GateError, TypeError):
    """An object that is no graph, module or function, and that no `pytest_fxgraph_adapt` hook turns into one."""


class GoldenError(GateError):
    """A golden file that cannot be used."""


class GoldenMissingError(GoldenError, FileNotFoundError):
    """A golden file that a test asked for and that does not exist."""


class GoldenFormatError(GoldenError, ValueError):
    """A file without the format of goldens: it is corrupt, foreign, too large or too deep."""


class GoldenVersionError(GoldenFormatError):
    """A golden file in a format that this release does not read."""


class GoldenNameError(GoldenError, ValueError):
    """A name that no golden can have: it leaves the golden folder, or it is reserved."""


class GoldenWriteError(GoldenError, OSError):
    """A golden file that could not be written. The file that was there before is whole."""


class ArchiveError(GateError, ValueError):
    """A `.pt2` or `.onnx` file that cannot be read, or one that executes a part of itself when torch loads it."""


class RecordingError(GateError, ValueError):
    """A recording that cannot be written, read or compared."""


class DocumentError(GateError):
    """A graph that no golden can hold, because the text of one of its values changes from run to run."""


class LevelError(GateError, ValueError):
    """A level of comparison that does not exist."""


class ChoiceError(GateError, ValueError):
    """An option with an unknown value: a check or cost that does not exist, or a tolerance for an unused path."""


class CaptureError(GateError, ValueError):
    """A model without a graph: tracing failed, or the model does not run with its example inputs."""


class RanksError(GateError, ValueError):
    """A program of many ranks that cannot be captured or run: no torch.distributed, a rank that failed, a bad mesh."""


class InputsError(GateError, TypeError):
    """Inputs that are neither a tuple of positional arguments nor one tensor."""


class ReportError(GateError, ValueError):
    """A report of a run that cannot be read or written."""


class EagerError(GateError, RuntimeError):
    """A model that failed in eager mode, so that there is no result to compare a graph with."""


class UncomparableError(GateError, TypeError):
    """An output with a value that has nothing to compare but its type, or for which a hook gave no answer in words."""


class VacuousCheckError(GateError, ValueError):
    """A check that could not have failed: a graph of zeros would agree with the model, or a pass did nothing."""


class TargetError(VacuousCheckError):
    """A target that can match no operator of the graph. A query for the target would always give the same answer."""


class Finding:
    """One difference between eager and graph, as a MismatchError holds it."""

    kind: str  # "value", "dtype", "aliasing", ...
    where: str  # "output['logits'][0]", "gradient of conv.weight", "input 0"
    description: str  # the rest of a sentence that begins with `where`

    def sentence(self) -> str:
        """Return the difference in one line."""
        return f"{self.where} {self.description}"

    def report_data(self) -> dict[str, object]:
        """Return the difference as plain data for reports."""
        return {"where": self.where, "description": self.description, "lines": (), "histogram": None}


class CheckError(AssertionError):
    """A failed check that compares no golden. `section` holds the whole text, for the reports of the run."""

    check = ""  # the name in reports

    def __init__(self, message: str, section: str, source: str = "") -> None:
        super().__init__(message)
        self.section = section
        self.source = source  # the user's line, `model.py:12: x = f(x)`; "" for an unknown line

    def report_data(self, nodeid: str) -> dict[str, object]:
        """Return the failure of a test as plain data; `record_of(NumericFailure, data)` reads it."""
        headline = str(self).partition("\n")[0]
        told = {"nodeid": nodeid, "headline": headline, "section": self.section}
        return {**told, "check": self.check, "source": self.source}


class BreakError(CheckError):
    """A model was not captured whole. `places` holds each line of the user's with the words for it."""

    check = "capture"

    def __init__(self, message: str, places: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message, message, next((source for source, _ in places if source), ""))
        self.places = places

    def report_data(self, nodeid: str) -> dict[str, object]:
        """Return the failure of a test as plain data; `record_of(NumericFailure, data)` reads it."""
        return {**super().report_data(nodeid), "places": self.places}


class CollectiveError(CheckError):
    """Ranks whose collectives do not match, or whose graphs differ."""

    check = "ranks"


class MismatchError(CheckError):
    """Eager and graph differ. `section` holds the whole text, `mismatches` the same facts as data."""

    check = "equivalence"
    MOST_REPORTED = 20

    def __init__(
        self,
        message: str,
        section: str,
        mismatches: tuple[Finding, ...] = (),
        path: tuple[dict[str, object], ...] = (),
    ) -> None:
        super().__init__(message, section)
        self.mismatches = mismatches
        self.path = path  # the steps of the error through the graph, where the check looked for them

    def report_data(self, nodeid: str) -> dict[str, object]:
        """Return the failure of a test as plain data; `record_of(NumericFailure, data)` reads it."""
        tensors = [finding.report_data() for finding in self.mismatches[: self.MOST_REPORTED]]
        return {**super().report_data(nodeid), "tensors": tensors, "path": list(self.path)}
