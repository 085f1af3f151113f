"""Records the goldens that `test_recordings.py` checks, under the torch and Python that run this.

`python -m tests.versions.record` puts them into `recordings.json.xz` in place of those that the same versions recorded
earlier; what other versions recorded stays. `python -m tests.versions.record ARCHIVE` does it with another archive.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fixtures.recordings import ARCHIVE, HERE, Recordings, recorded_cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("archive", nargs="?", type=Path, default=ARCHIVE)
    archive = parser.parse_args().archive
    recordings = Recordings.read(archive)
    recordings.record(recorded_cases().values())
    recordings.write(archive)
    recorded = sum(HERE in texts for texts in recordings.cases.values())
    print(f"{recorded} goldens of {HERE} in {archive}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
