"""What to show when the generated forward of a module raises."""

from __future__ import annotations

import linecache
import sys
import traceback


def explain_failure(error: Exception) -> None:
    """Print to stderr where in the generated code `error` arose, if it arose there itself."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or "eval_with_key" not in frames[-1].filename:
        return
    place = frames[-1]
    line_number = place.lineno or 1
    lines = linecache.getlines(place.filename)
    print(
        "\n".join(
            [
                traceback.format_exc(),
                f"Call using an FX-traced Module, line {line_number} of the traced Module's "
                "generated forward function:",
                "".join(lines[max(line_number - 2, 0) : line_number]),
                "~" * len(place.line or "") + "~~~ <--- HERE",
                "\n".join(lines[line_number : line_number + 2]),
            ]
        ),
        file=sys.stderr,
    )
