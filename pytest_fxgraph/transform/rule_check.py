"""The check of a rule by itself: pattern and replacement run on generated inputs before the rule meets a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple

import torch

import fxcore
from fxcore.errors import FxError, GuardError
from fxcore.passes.infra.working_copy import working_copy
from fxcore.passes.shape_prop import ShapeProp
from fxcore.state.snapshot import Snapshot, globals_kept
from fxcore.transforms.rule import Calls, Rule
from fxcore.transforms.rule_set import RuleReport, RuleSet
from pytest_fxgraph.choices import CHECKS
from pytest_fxgraph.equivalence.check import GraphCall
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.equivalence.search.judging import quiet
from pytest_fxgraph.equivalence.search.search import describe, search_further
from pytest_fxgraph.errors import ChoiceError, EagerError, MismatchError, VacuousCheckError

TRIES = 100
# Besides the dtypes of the examples. A pattern that refuses a dtype is not compared in it.
DTYPES = (torch.float64, torch.bfloat16, torch.int64)


class RuleVerdict(NamedTuple):
    """The result of one rule's check."""

    rule: str
    state: Literal["right", "wrong", "unchecked"]
    account: str  # the inputs that show the fault, the number of tries, or why the rule could not be checked
    error: MismatchError | None = None

    def __str__(self) -> str:
        return f"{self.rule}: {self.state}; {self.account}"


class RuleChecks(tuple[RuleVerdict, ...]):
    """The verdicts of a rule set, in the order of its rules."""

    def of(self, state: str) -> list[RuleVerdict]:
        """Return the verdicts with a state: "right", "wrong" or "unchecked"."""
        return [each for each in self if each.state == state]

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def verdict_on(
    rule: Rule, inputs: object = None, *, dtypes: Sequence[torch.dtype] | None = None, **options: Any
) -> RuleVerdict:
    """Compare pattern and replacement of a rule on its example inputs and on generated inputs.

    `inputs` replace the rule's `example_inputs`; other values than tensors are constants of the pattern. The examples
    are also tried in each of `dtypes`, broadcast, and with other constants. `options` are options of `fx_equivalence`;
    `search` is the number of tries in all (100). Raises ChoiceError without example inputs.
    """
    given = rule.example_inputs if inputs is None else inputs
    if given is None:
        raise ChoiceError(
            f"cannot check rule {rule.name!r} without example inputs; write Rule(..., example_inputs=(...)), or give "
            "inputs for it"
        )
    examples = arguments_of(tuple(given) if isinstance(given, list) else given).args
    variants = [examples, *_variants(examples, DTYPES if dtypes is None else dtypes)]
    tries = max(1, int(options.pop("search", TRIES)) // len(variants))
    accounts: list[str] = []
    refusals: list[str] = []
    for variant in variants:
        try:
            accounts.append(_compared(rule, variant, {"search": tries, **options}))
        except MismatchError as error:
            return RuleVerdict(rule.name, "wrong", _words_of(error, variant), error)
        except (FxError, EagerError, NotImplementedError, _RefusedError) as error:
            refusals.append(str(error) if isinstance(error, _RefusedError) else f"{type(error).__name__}: {error}")
    if not accounts:
        return RuleVerdict(rule.name, "unchecked", refusals[0])
    return RuleVerdict(rule.name, "right", f"{len(accounts)} forms of the inputs; {accounts[0]}")


def check_rules(
    rules: RuleSet, inputs: Mapping[str, object] | None = None, *, allow_vacuous: bool = False, **options: Any
) -> RuleChecks:
    """Return the verdict on every rule of a set; `inputs` has example inputs by the names of rules.

    Raises MismatchError (an AssertionError) that names each wrong rule with the inputs that show it, and
    VacuousCheckError for rules that could not be checked, unless `allow_vacuous` is True.
    """
    given = inputs or {}
    unknown = [each for each in given if each not in {rule.name for rule in rules}]
    if unknown:
        raise ChoiceError(f"there are inputs for {unknown[0]!r}, and the set has no rule of this name")
    checks = RuleChecks([verdict_on(rule, given.get(rule.name), **options) for rule in rules])
    errors = [each.error for each in checks if each.error is not None]
    if errors:
        text = "\n".join(f"rule {each.rule!r} is wrong: {each.account}" for each in checks.of("wrong"))
        raise MismatchError("\n".join(text.splitlines()[:6]), str(checks), errors[0].mismatches, errors[0].path)
    unchecked = checks.of("unchecked")
    if unchecked and not allow_vacuous:
        raise VacuousCheckError(
            f"rule {unchecked[0].rule!r} could not be checked: {unchecked[0].account}; give other inputs for it, or "
            "say allow_vacuous=True"
        )
    return checks


class _RefusedError(Exception):
    """The rule does not apply to its own pattern with these inputs."""


def _variants(examples: tuple[Any, ...], dtypes: Sequence[torch.dtype]) -> Iterator[tuple[Any, ...]]:
    """Yield the examples in other dtypes, with one tensor broadcast, and with one other constant."""
    floats = [_is_float(each) for each in examples]
    for dtype in dtypes if any(floats) else ():
        if all(each.dtype is not dtype for each, is_float in zip(examples, floats, strict=True) if is_float):
            pairs = zip(examples, floats, strict=True)
            yield tuple([_converted(each, dtype) if is_float else each for each, is_float in pairs])
    several = sum(isinstance(each, torch.Tensor) for each in examples) > 1
    for place, each in enumerate(examples):
        others = _broadcast(each) if several else ()
        for other in others if isinstance(each, torch.Tensor) else _other_constants(each):
            yield (*examples[:place], other, *examples[place + 1 :])


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    # Whole numbers of a random tensor would be zeros.
    return tensor.detach().to(dtype) if dtype.is_floating_point else (tensor.detach() * 8).round().to(dtype)


def _broadcast(value: Any) -> Sequence[Any]:
    is_wide = isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape[0] > 1
    return (value[:1].clone(), value[0].clone()) if is_wide else ()


def _other_constants(value: Any) -> Sequence[Any]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, (int, float)):
        return (value + 1, -1 - value) if isinstance(value, int) else (2 * value, -value)
    return (value[::-1],) if isinstance(value, (list, tuple)) and len(value) > 1 and value != value[::-1] else ()


def _compared(rule: Rule, examples: tuple[Any, ...], options: Mapping[str, Any]) -> str:
    """Compare on one set of examples and on inputs like them; return the account of the search."""
    __tracebackhide__ = True
    subject = _subject_of(rule, examples)
    tensors = tuple([each for each in examples if isinstance(each, torch.Tensor)])
    # The surroundings of a match decide whether a result may share memory. The pattern alone has none.
    alone = RuleSet([dataclasses.replace(rule, changes_effects=True)])
    rewritten = _rewritten(alone, subject, tensors)
    call: Callable[..., Any] = rewritten
    if rule.when is not None:

        def call(*inputs: Any) -> Any:
            try:
                return _rewritten(alone, subject, inputs)(*inputs)
            except _RefusedError as error:
                raise GuardError(str(error)) from error

    return _searched(rule.name, subject, GraphCall(rewritten, call), tensors, options)


def _searched(
    name: str, pattern: Any, replacement: GraphCall, inputs: tuple[Any, ...], options: Mapping[str, Any]
) -> str:
    """Compare on inputs and on inputs like them; return the account of the search."""
    __tracebackhide__ = True
    checks = [each for each in CHECKS if each not in ("aliasing", "strides")]
    fixture = FxEquivalence(**{"checks": checks, "allow_vacuous": True, **options})
    check = dataclasses.replace(
        fixture.new_check(arguments_of(inputs), {}), subject=f"the replacement of rule {name!r}", explains=False
    )
    budget = fixture.search_budget({}, 1)
    with closing(Snapshot(pattern)) as guard, globals_kept(), quiet():
        check.run(pattern, replacement, None, guard)
        search_further(budget, check, pattern, replacement, None, guard)
    return "" if budget is None else str(budget.reports[-1]).removeprefix(f"{check.subject}: ")


def _subject_of(rule: Rule, examples: tuple[Any, ...]) -> fxcore.GraphModule:
    """Return the pattern as a module that takes the tensors among its examples; other examples are constants."""
    if isinstance(rule.pattern, Calls):
        return _call_of(rule.pattern.targets[0], examples)
    assert rule.traced_pattern is not None
    made = working_copy(rule.traced_pattern)
    inputs = made.graph.find_nodes(op="placeholder")
    if len(inputs) != len(examples):
        raise ChoiceError(
            f"rule {rule.name!r} has {len(examples)} example inputs, and its pattern takes {len(inputs)}; give one for "
            "each parameter of the pattern"
        )
    for node, value in zip(inputs, examples, strict=True):
        if not isinstance(value, torch.Tensor):
            for user in list(node.users):
                user.args = fxcore.node.map_arg(user.args, lambda each: value if each is node else each)  # noqa: B023
                user.kwargs = fxcore.node.map_arg(user.kwargs, lambda each: value if each is node else each)  # noqa: B023
            made.graph.erase_node(node)
    made.recompile()
    return made


def _call_of(target: Any, examples: tuple[Any, ...]) -> fxcore.GraphModule:
    """Return a module with one call of a target; the first example for a class of modules is the module."""
    root, graph = torch.nn.Module(), fxcore.Graph()
    op = "call_method" if isinstance(target, str) else "call_function"
    if isinstance(target, type):
        root.add_module("called", examples[0])
        op, target, examples = "call_module", "called", examples[1:]
    given = [
        graph.placeholder(f"x{place}") if isinstance(each, torch.Tensor) else each
        for place, each in enumerate(examples)
    ]
    graph.output(graph.create_node(op, target, tuple(given)))
    return fxcore.GraphModule(root, graph)


class _Values(ShapeProp):
    """Gives each node its value as metadata, for conditions that ask for shapes and dtypes."""

    def run_node(self, n: fxcore.Node) -> Any:
        result = super().run_node(n)
        n.meta["val"] = result
        return result


def _rewritten(rules: RuleSet, subject: fxcore.GraphModule, inputs: tuple[Any, ...]) -> fxcore.GraphModule:
    """Return the subject with its pattern replaced. Raises _RefusedError if the rule does not apply to it."""
    made = working_copy(subject)
    if rules.rules[0].when is not None:
        with torch.no_grad():
            _Values(made).propagate(*inputs)
    report: RuleReport = rules.apply(made, once=True)
    if not report.rewrites:
        reasons = [each.reason for each in report.left]
        raise _RefusedError(reasons[0] if reasons else "the rule does not match its own pattern with these inputs")
    return made


def _words_of(error: MismatchError, inputs: tuple[Any, ...]) -> str:
    """Return the difference and the inputs that show it."""
    first, *rest = str(error).splitlines()
    found = next((line.strip() for line in rest if "input: " in line), f"input: {describe(arguments_of(inputs))}")
    return f"{first.partition(': ')[2]}; {found}"
