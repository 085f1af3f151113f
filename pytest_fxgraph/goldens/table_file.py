"""The file of a table: rows are read from it, merged into it and received beside it, one run at a time."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.goldens.files import Received, read_received, received_path, write_received
from pytest_fxgraph.goldens.lock import locked
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_rows import Row, decode_table, digest_of, encode_table


@dataclass(frozen=True)
class TableFile:
    """A table, or a variant of it, below the golden folder."""

    store: GoldenStore
    place: PurePosixPath
    shown: str  # as messages name it

    def rows(self) -> dict[str, Row]:
        """Return the rows by name, no rows without a file. Raises GoldenError if it cannot be read."""
        return decode_table(self.store.read(self.place), self.shown) if self.store.exists(self.place) else {}

    def merge(
        self, rows: Iterable[Row], compared_with: Mapping[str, str | None] | None = None, remove: Iterable[str] = ()
    ) -> list[str]:
        """Write rows beside the rows that other runs wrote since this run began, and remove some.

        `compared_with` maps a row's name to the digest of the row that a test compared with; no entry means no row.
        A row that another run has changed since stays as it is. Returns the names of rows that were not written. Raises
        GoldenError or OSError if the file cannot be written; the file that was there before is then whole.
        """
        with self._locked():
            found = self.rows()
            refused = []
            for row in rows:
                if digest_of(found.get(row.name)) in ((compared_with or {}).get(row.name), digest_of(row)):
                    found[row.name] = row
                else:
                    refused.append(row.name)
            for name in remove:
                found.pop(name, None)
            if found:
                self.store.write(self.place, encode_table(found.values()))
            else:
                self.store.remove(self.place)
        return refused

    def receive(
        self, rows: Mapping[str, Row | None], causes: Mapping[str, Mapping[str, Any]] | None = None
    ) -> PurePosixPath | None:
        """Keep rows that differ beside the table. None stands for a row that matches; its received row is removed.

        Rows that an earlier run received stay, if the table is the one that they were compared with. Returns the
        received file, None if nothing is left of it. Raises GoldenError or OSError if it cannot be written.
        """
        received = received_path(self.place)
        if not any(rows.values()) and not self.store.exists(received):
            return None
        with self._locked():
            current = self.rows()
            digest = self.store.digest(self.place)
            earlier, told = self._received_earlier(received, digest)
            found = {**current, **earlier}
            for name, row in rows.items():
                if row is not None:
                    found[name] = row
                elif name in current:
                    found[name] = current[name]
                else:
                    found.pop(name, None)
            if found == current:
                self.store.remove(received)
                return None
            told = {
                name: each for name, each in {**told, **(causes or {})}.items() if found.get(name) != current.get(name)
            }
            cause = {"level": "table", "rows": told}
            self.store.write(received, write_received(Received(encode_table(found.values()), digest, cause)))
        return received

    def accept(self, names: Collection[str]) -> bool:
        """Put received rows into the table, and forget them in the received file.

        Returns False, and writes nothing, if the table is another one than the table of the comparison. Raises
        GoldenError or OSError if a file cannot be read or written.
        """
        received = received_path(self.place)
        with self._locked():
            told = read_received(self.store.read(received), str(received))
            wanted, found = decode_table(told.text, str(received)), self.rows()
            if told.compared_with != self.store.digest(self.place):
                return False
            found.update({name: wanted[name] for name in names})
            self.store.write(self.place, encode_table(found.values()))
            if found == wanted:
                self.store.remove(received)
            else:
                causes = {row: each for row, each in told.cause.get("rows", {}).items() if row not in names}
                left = Received(told.text, self.store.digest(self.place), {**told.cause, "rows": causes})
                self.store.write(received, write_received(left))
        return True

    def _received_earlier(
        self, received: PurePosixPath, digest: str | None
    ) -> tuple[dict[str, Row], Mapping[str, Mapping[str, Any]]]:
        """Return the rows that an earlier run received and their causes, if the table is still the same."""
        try:
            earlier = read_received(self.store.read(received), str(received))
            if earlier.compared_with == digest:
                return decode_table(earlier.text, str(received)), earlier.cause.get("rows", {})
        except GoldenError:  # no received file, or an edited one
            pass
        return {}, {}

    def _locked(self) -> AbstractContextManager[None]:
        return locked(Path(os.path.realpath(self.store.path(self.place))), self.shown)
