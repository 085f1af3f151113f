"""Level `kernels`: the kernels of two captures as multisets, and words for fusions that were lost or won."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from pytest_fxgraph.compare.difference import Change, Difference, Edit, Site
from pytest_fxgraph.document.capture_notes import KERNEL, finding_in_words, kernels_and_counts, key_of_refusal
from pytest_fxgraph.document.kernel_lines import KernelLine
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.grouping import without

_UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True)
class _Found:
    """A kernel of a document without its modules, and its line with them."""

    kernel: KernelLine
    text: str
    modules: str

    def change(self, action: str) -> Change:
        return Change("signature", action, KERNEL, self.text, operator=self.text)


def kernel_difference(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare the kernels of two captures: kind, called function, operators and bytes, in any order."""
    before, after = ([*_kernels(document)] for document in (expected, obtained))
    lost, new = (without(*sides, attrgetter("kernel")) for sides in ((before, after), (after, before)))
    changes = {id(each): each.change("removed") for each in lost} | {id(each): each.change("added") for each in new}
    explained = _Explanations(lost, new, obtained.places)
    edits: dict[str, Edit] = {}
    for text, key, parts in explained.found:
        edit = edits.get(text) or Edit(KERNEL, text, (), (), (KERNEL, key))
        where = next((part.modules for part in parts if part.modules), "")
        of_parts = tuple(changes[id(part)] for part in parts)
        edits[text] = replace(edit, sites=(*edit.sites, Site(where)), changes=(*edit.changes, *of_parts))
    told = [*edits.values()]
    if told:
        told[0] = replace(told[0], text=f"{_balance(before, after)}: {told[0].text}")
    records = ({KERNEL: [each.text for each in lost]}, {KERNEL: [each.text for each in new]}) if changes else ({}, {})
    return Difference("kernels", tuple(changes.values()), edits=tuple(told), records=records)


def _kernels(document: GraphDocument) -> Iterator[_Found]:
    for text, times in kernels_and_counts(document.notes):
        line = KernelLine.from_text(text)
        yield from (_Found(line._replace(modules=""), text, line.modules) for _ in range(times))


def _balance(before: Sequence[_Found], after: Sequence[_Found]) -> str:
    """Return the headline: the change of the number of kernels and of their bytes."""
    more = len(after) - len(before)
    moved = sum(each.kernel.bytes for each in after) - sum(each.kernel.bytes for each in before)
    plural = "s" * ((abs(more) or len(after)) != 1)
    number = f"{more:+d} kernel{plural}" if more else f"{len(after)} kernel{plural} as before"
    return f"{number}, {_signed(moved)} moved" if moved else number


def _signed(number: int) -> str:
    sign, size = "-" if number < 0 else "+", float(abs(number))
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{sign}{size:.4g} {_UNITS[unit]}"


class _Explanations:
    """Words for lost and new kernels; each kernel is in one explanation."""

    def __init__(self, lost: Sequence[_Found], new: Sequence[_Found], reasons: Mapping[str, str]) -> None:
        self._lost, self._new = [*lost], [*new]
        self._reasons = reasons
        self.found: list[tuple[str, str, list[_Found]]] = []  # words, the words without sizes and reasons, kernels
        for each in lost:
            self._explain_split(each)
        for each in new:
            self._explain_merge(each)
        for is_partner in (_same_operators, _shared_operators):
            for each in [*self._lost]:
                self._explain_changed(each, is_partner)
        for kernels, is_added in ((self._new, True), (self._lost, False)):
            for each in kernels:
                words = finding_in_words(KERNEL, "", is_added=is_added)
                self.found.append((f"{words}: {each.text}", f"{words}: {each.kernel.named}", [each]))

    def _explain_split(self, lost: _Found) -> None:
        parts = _parts_of(lost, self._new)
        if len(parts) < 2:
            return
        *others, first = sorted(parts, key=lambda part: part.kernel.counted.total())
        ended = "; ".join(part.kernel.named for part in parts)
        reason = next((told for other in others if (told := self._reason(first, other))), "")
        pair = f"{others[0].kernel.told} is no longer fused with {first.kernel.told}"
        text = f"{pair}: one {lost.kernel.kernel} became {len(parts)}: {ended}"
        self._take(text + reason, text, [lost], parts)

    def _explain_merge(self, new: _Found) -> None:
        parts = _parts_of(new, self._lost)
        if new not in self._new or len(parts) < 2:
            return
        *others, first = sorted(parts, key=lambda part: part.kernel.counted.total())
        pair = f"{others[0].kernel.told} is now fused with {first.kernel.told}"
        text = f"{pair}: {len(parts)} kernels became one {new.kernel.kernel}"
        self._take(text, text, parts, [new])

    def _explain_changed(self, lost: _Found, is_partner: Callable[[KernelLine, KernelLine], bool]) -> None:
        new = next(
            (
                each
                for each in self._new
                if each.kernel.phase == lost.kernel.phase and is_partner(lost.kernel, each.kernel)
            ),
            None,
        )
        if new is not None:
            self._take(*_changed(lost.kernel, new.kernel), [lost], [new])

    def _take(self, text: str, key: str, lost: list[_Found], new: list[_Found]) -> None:
        for each in lost:
            self._lost.remove(each)
        for each in new:
            self._new.remove(each)
        self.found.append((text, key, [*new, *lost]))

    def _reason(self, first: _Found, second: _Found) -> str:
        told = [
            self._reasons.get(key_of_refusal(*pair)) for pair in ((first.text, second.text), (second.text, first.text))
        ]
        return "".join(f", because {reason}" for reason in told if reason)


def _parts_of(whole: _Found, candidates: Sequence[_Found]) -> list[_Found]:
    """Return kernels that together compute at least the operators of one kernel, none of them another operator."""
    wanted = {*whole.kernel.counted}
    parts: list[_Found] = []
    for each in candidates:
        own = {*each.kernel.counted}
        if own and own <= {*whole.kernel.counted} and own & wanted and each.kernel.phase == whole.kernel.phase:
            parts.append(each)
            wanted -= own
    return parts if not wanted else []


def _same_operators(lost: KernelLine, new: KernelLine) -> bool:
    return lost.operators == new.operators


def _shared_operators(lost: KernelLine, new: KernelLine) -> bool:
    """Return whether the kernels share at least half of their operators."""
    shared = (lost.counted & new.counted).total()
    return 2 * shared >= max(lost.counted.total(), new.counted.total())


def _changed(lost: KernelLine, new: KernelLine) -> tuple[str, str]:
    """Describe one kernel that took the place of another, with its bytes and without."""
    told = [f"{lost.kernel} became {new.kernel}"] if lost.kernel != new.kernel else []
    changed = [(lost.counted - new.counted, "without"), (new.counted - lost.counted, "with")]
    told += [f"{word} {lost._replace(operators=tuple(names.items())).told}" for names, word in changed if names]
    sized = [(lost.read, new.read, "reads"), (lost.written, new.written, "writes")]
    sizes = [f"{word} {before:,} B -> {after:,} B" for before, after, word in sized if before != after]
    directions = [f"{word} {'more' if before < after else 'less'}" for before, after, word in sized if before != after]
    about = lost.told if lost.kernel != new.kernel else lost.named
    return f"{about}: {', '.join(told + sizes)}", f"{about}: {', '.join(told or directions)}"
