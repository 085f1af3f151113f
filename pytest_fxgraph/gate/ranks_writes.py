"""The goldens of all ranks of a launch: rank 0 gathers the outcomes, and one golden serves all ranks that agree.

Ranks with another graph get a variant beside the golden, `<stem>@ranks-1-3.yaml`, one for each group of equal ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.gate.attempt import given_fields
from pytest_fxgraph.gate.paths import shown, within_folder
from pytest_fxgraph.goldens.files import golden_digest, golden_of_all_ranks, ranks_path, received_path
from pytest_fxgraph.goldens.store import GoldenStore, rank_variants
from pytest_fxgraph.ranks.world import ranks_text
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.plain_data import record_of


@dataclass(frozen=True)
class TestOutcome:
    """The outcome of a golden of a finished test, of one rank."""

    __test__ = False  # pytest collects no class of this name

    outcome: Outcome
    passed: bool
    failed: bool

    def to_data(self) -> list[Any]:
        """Return the outcome as plain data."""
        return [given_fields(self.outcome), self.passed, self.failed]

    @classmethod
    def of_data(cls, data: Sequence[Any]) -> TestOutcome:
        """Read what `to_data` returned."""
        return cls(record_of(Outcome, data[0]), bool(data[1]), bool(data[2]))


@dataclass
class GatheredGoldens:
    """What rank 0 takes in place of the outcomes of all ranks, and the files for ranks that no rank needs any more."""

    store: GoldenStore
    config: pytest.Config
    taken: list[TestOutcome] = field(default_factory=list)
    outdated: list[PurePosixPath] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def join(self, family: Mapping[int, Sequence[TestOutcome]]) -> None:
        """Take the outcomes of the lowest rank, and of other ranks those that differ from it."""
        first, *others = sorted(family)
        self.taken += family[first]
        known = [_facts(each.outcome) for each in family[first]]
        for rank in others:
            for each in family[rank]:
                outcome = each.outcome
                if _facts(outcome) in known:
                    continue
                if outcome.new_text is not None:  # an inline golden, or a row of a table
                    self.errors.append(
                        f"cannot write {outcome.golden}: {outcome.nodeid} wants another text in it on rank {rank} than "
                        f"on rank {first}, and it is one text for all ranks; compare files, which have variants for "
                        "ranks"
                    )
                    continue
                known.append(_facts(outcome))
                golden, digest = outcome.golden, outcome.expected_digest
                if outcome.received is not None:
                    golden = str(ranks_path(golden_of_all_ranks(PurePosixPath(golden)), str(rank)))
                    current = self._content(within_folder(golden, self.config))
                    digest = None if current is None else golden_digest(current.encode())
                headline = outcome.headline and f"rank {rank}: {outcome.headline}"
                self.taken.append(
                    replace(each, outcome=replace(outcome, golden=golden, headline=headline, expected_digest=digest))
                )

    def divide(self, place: PurePosixPath, family: Mapping[int, Sequence[TestOutcome]]) -> None:
        """Give each group of ranks with one text its file: the lowest rank's group the golden, the others a variant.

        A rank whose test did not pass keeps all files as they are.
        """
        texts: dict[str, list[int]] = {}
        for rank in sorted(family):
            last = family[rank][-1]
            if not last.passed:
                self.taken += [replace(each, passed=False) for outcomes in family.values() for each in outcomes]
                return
            texts.setdefault(self._text_of(last.outcome), []).append(rank)
        groups = list(texts.items())
        targets = [place, *[ranks_path(place, ranks_text(ranks)) for _, ranks in groups[1:]]]
        # Variants first: if this process is killed between two files, each rank finds a golden that it wrote or had.
        for target, (text, ranks) in reversed(list(zip(targets, groups, strict=True))):
            wanted = next((each for rank in ranks for each in family[rank] if each.outcome.new_text == text), None)
            first = wanted or family[ranks[0]][-1]
            path, current = shown(target, self.config), self._content(target)
            outcome = replace(first.outcome, golden=path, status="matched", new_text=None, update="none")
            if current != text:
                digest = None if current is None else golden_digest(current.encode())
                digest = first.outcome.expected_digest if first.outcome.golden == path else digest
                update = "new" if current is None else "changed"
                outcome = replace(outcome, status="updated", new_text=text, update=update, expected_digest=digest)
            self.taken.append(replace(first, outcome=outcome))
        self.outdated += [
            path
            for path, ranks in rank_variants(self.store, place).items()
            if path not in targets and ranks <= family.keys()
        ]

    def _content(self, target: PurePosixPath) -> str | None:
        """Return the text of a golden; None if there is none, or none that can be read."""
        with suppress(GoldenError):
            return self.store.read(target)
        return None

    def _text_of(self, outcome: Outcome) -> str:
        """Return the text that a rank wants in its golden: a new one, or the one that it matched."""
        if outcome.new_text is not None:
            return outcome.new_text
        return self.store.read(within_folder(outcome.golden, self.config))


def _facts(outcome: Outcome) -> tuple[Any, ...]:
    return outcome.golden, outcome.status, outcome.headline, outcome.new_text, outcome.received, outcome.row


def gathered_goldens(
    by_rank: Mapping[int, Sequence[TestOutcome]], store: GoldenStore, config: pytest.Config
) -> GatheredGoldens:
    """Put the outcomes of all ranks together; of a golden that is updated, each group of equal ranks has a file."""
    found = GatheredGoldens(store, config)
    families: dict[tuple[str, PurePosixPath], dict[int, list[TestOutcome]]] = {}
    for rank, of_rank in by_rank.items():
        for each in of_rank:
            golden = golden_of_all_ranks(PurePosixPath(each.outcome.golden))
            families.setdefault((each.outcome.nodeid, golden), {}).setdefault(rank, []).append(each)
    for (_, golden), family in families.items():
        outcomes = [each.outcome for of_rank in family.values() for each in of_rank]
        are_files = all(outcome.is_file for outcome in outcomes)  # neither inline goldens nor rows
        if are_files and any(outcome.new_text is not None for outcome in outcomes):
            found.divide(within_folder(str(golden), config), family)
        else:
            found.join(family)
        if are_files and config.getoption("fx_received"):
            kept = {each.outcome.golden for each in found.taken if each.outcome.received is not None}
            received = rank_variants(store, within_folder(str(golden), config), received=True)
            found.outdated += [
                received_path(path)
                for path, ranks in received.items()
                if ranks <= family.keys() and shown(path, config) not in kept
            ]
    return found
