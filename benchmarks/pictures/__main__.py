"""Make the pictures of the docs: `python -m benchmarks.pictures`, with a Chromium on the path or in FXGRAPH_BROWSER."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.pictures.report import failing_report
from benchmarks.pictures.shots import SHOTS, take
from fixtures.browser import VARIABLE, browser_page, browser_path

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; without a browser, say so and end with 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SHOTS)}; all by default")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder for the pictures (default: docs/images)")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(SHOTS)
    if unknown:
        parser.error(f"there is no picture {', '.join(sorted(unknown))}; choose from {', '.join(SHOTS)}")
    path = browser_path()
    if path is None:
        print(f"no picture was made: there is no Chromium here; name one in {VARIABLE}", file=sys.stderr)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser_page(path) as page:
        report = failing_report(Path(folder))
        for name in options.names or SHOTS:
            file = options.out / f"{name}.png"
            take(page, report, name, file)
            print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
