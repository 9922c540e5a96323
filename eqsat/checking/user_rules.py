"""A user's own rules: found by name, and checked before they are used.

    # my_rules.py
    c = symbols("c", kinds.Clamp)
    RULES = [rule("clamp-twice", c(c(x)), c(x))]

    pack = eqsat.user_rules.load("my_rules.py")           # or "package.module", "my_rules.py:NAME", an entry point
    eqsat.optimize_tosa(tosa, target, options=Options(rules=pack.rules))

A module has RULES and may have GRAPHS: TensorGraphs, or functions that return one, on which its rules should fire.
An installed package offers its module by an entry point in the group `eqsat.rules`, which is used only if it is named.
`load` runs the soundness checker on random graphs and on GRAPHS. Graphs made by rules that pass are still verified.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from eqsat.checking.random_graphs import random_graph
from eqsat.checking.soundness import Checked, Unsound, check_frozen
from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget, EngineError, ExternError
from eqsat.egraph.rule import Rule
from eqsat.ground.files import InputError, PluginError
from eqsat.ground.registry import Registry
from eqsat.rules import RULES
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS

USER_RULES = Registry("module of rules", "eqsat.rules", {})
#: Number of random graphs on which rules are tried before they are used.
GRAPHS = 40
#: The reason if a rule equates values of different types.
_TWO_TYPES = "its two sides differ in shape or dtype"
#: Limits of the e-graph of each graph.
_BUDGET = Budget(nodes=1500, seconds=5.0, passes=8)
#: Built-in rules that only help other rules.
_HELPERS = tuple(r for r in RULES if r.helps)


class UnsoundRules(InputError):
    """Rules that failed the check; the message gives a counterexample."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A user's rules, and graphs on which to try them."""

    name: str
    rules: tuple[Rule, ...]
    graphs: tuple[TensorGraph, ...] = ()


@dataclass(slots=True)
class Report:
    """The result of checking a pack.

    matches: {rule: number of its matches}. graphs: number of e-graphs tried. unsound: {rule: why it is unsound}.
    proved, undecided: sums of these fields of `Checked`.
    unproved: rules that fired on graphs of which less is proved with the pack's rules than without.
    """

    matches: dict[str, int]
    graphs: int = 0
    unsound: dict[str, str] = field(default_factory=dict)
    unproved: set[str] = field(default_factory=set)
    proved: int = 0
    undecided: Counter[str] = field(default_factory=Counter)

    @property
    def unused(self) -> list[str]:
        """The rules that never fired, of which nothing is known."""
        return [r for r, n in self.matches.items() if not n and r not in self.unsound]


def available() -> dict[str, str]:
    """Returns {name of an entry point: what it names}."""
    return USER_RULES.available()


def find(name: str) -> Pack:
    """Returns the rules that a name stands for, unchecked. Raises InputError and PluginError.

    name: an entry point, a module or a file, or one name in it (`file.py:NAME`).
    """
    found = USER_RULES.find(name)
    module = isinstance(found, ModuleType)
    rules = getattr(found, "RULES", ()) if module else found
    rules = (rules,) if isinstance(rules, Rule) else tuple(rules) if isinstance(rules, list | tuple) else ()
    graphs = getattr(found, "GRAPHS", ()) if module else ()
    if not rules or not all(isinstance(r, Rule) for r in rules):
        raise InputError(f"{name} has no RULES: a list of rules, each made by eqsat.rule")
    names = [r.name for r in rules]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise InputError(f"{name} has several rules of one name: {', '.join(twice)}")
    taken = sorted({*names} & {r.name for r in RULES})
    if taken:
        raise InputError(f"{name} uses names that eqsat has: {', '.join(taken)}; choose others")
    return Pack(name, rules, tuple(_graph(name, g) for g in graphs))


def _graph(name: str, graph: TensorGraph | Callable[[], TensorGraph]) -> TensorGraph:
    """Returns one of the GRAPHS of a module. Raises PluginError if its function fails."""
    if not callable(graph):
        return graph
    try:
        return graph()
    except Exception as e:
        raise PluginError(f"{name}: one of GRAPHS failed{_place(e)}: {type(e).__name__}: {e}") from e


def load(name: str, graphs: int = GRAPHS) -> Pack:
    """Returns the rules of a name, checked on so many random graphs. Raises what `find` raises, and UnsoundRules."""
    pack = find(name)
    report = examine(pack, graphs)
    if report.unsound:
        rule, why = next(iter(report.unsound.items()))
        raise UnsoundRules(f"{name}: the rule {rule!r} is unsound: {why}")
    return pack


def places(names: Iterable[str]) -> list[str]:
    """Returns what the names stand for: `file.py` or `module`, either with `:NAME`. Raises InputError."""
    return [USER_RULES.place(name) for name in names]


def load_all(names: Iterable[str]) -> tuple[Rule, ...]:
    """Returns the rules that several names stand for, checked. Raises what `load` raises."""
    return tuple(r for name in names for r in load(name).rules)


def examine(
    pack: Pack,
    graphs: int = GRAPHS,
    given: Sequence[TensorGraph] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Checks a pack on its own graphs, on `given` ones and on random ones.

    All are saturated with the pack's rules. Every fourth random graph is saturated with all built-in rules, too.
    The pack's own graphs and given ones are saturated both without and with them.
    A rule that fails is left out of the graphs after it.
    progress: called with the number of each case.
    Raises PluginError if a function of the pack fails, and InputError for a graph on which eqsat itself fails.
    """
    report = Report({r.name: 0 for r in pack.rules if not r.analysis})
    own = [(f"graph {n} of {pack.name}", g) for n, g in enumerate(pack.graphs, 1)]
    others = [(f"given graph {n}", g) for n, g in enumerate(given, 1)]
    cases = [(name, g, ours) for name, g in (*own, *others) for ours in (False, True)] + [
        (f"random graph {seed}", random_graph(seed), seed % 4 == 3) for seed in range(graphs)
    ]
    for number, (name, graph, ours) in enumerate(cases):
        progress(number)
        rules = [r for r in pack.rules if r.name not in report.unsound]
        if not any(not r.analysis for r in rules):
            break
        try:
            _count(report, _check(graph, rules, ours, report.matches), ours)
        except Exception as e:
            if not _is_verdict(e) or _error(graph, (), ours):
                raise _failure(pack, name, graph, rules, ours, e) from e
            _blame(report, rules, graph, ours, e)
        report.graphs += 1
    return report


def _check(
    graph: TensorGraph, rules: Sequence[Rule], ours: bool, matches: MutableMapping[str, int] | None = None
) -> Checked:
    """Saturates and checks a graph, and adds the matches of the rules in `matches`. Raises what both raise."""
    matches = {} if matches is None else matches
    frozen = saturate(graph, [*(RULES if ours else _HELPERS), *rules], _BUDGET)
    for name in matches:
        matches[name] += frozen.saturation.matches.get(name, 0)
    return check_frozen(frozen)


def _count(report: Report, checked: Checked, ours: bool) -> None:
    """Adds what was found of one graph."""
    report.proved += checked.proved
    report.undecided.update(checked.undecided)
    fired = {name for name in report.matches if checked.frozen.saturation.matches.get(name)}
    if checked.undecided and not fired <= report.unproved:
        without = _check(checked.frozen.source, (), ours)
        if Counter(checked.undecided) - Counter(without.undecided):
            report.unproved |= fired


def _error(graph: TensorGraph, rules: Sequence[Rule], ours: bool) -> Exception | None:
    """Returns what `_check` raises, whatever it is."""
    try:
        _check(graph, rules, ours)
    except Exception as e:  # noqa: BLE001 - the caller decides what it is
        return e
    return None


def _is_verdict(error: Exception | None) -> bool:
    """Whether an exception says that a rule is unsound, and not that a function failed."""
    return isinstance(error, Unsound | EngineError) and not isinstance(error, ExternError)


def _failure(
    pack: Pack, name: str, graph: TensorGraph, rules: Sequence[Rule], ours: bool, error: Exception
) -> InputError:
    """Returns the error to raise where a function of the pack, or eqsat itself, fails on the graph called `name`."""
    cause = error.__cause__ or error if isinstance(error, ExternError) else error
    said = f"{type(cause).__name__}: {cause}"
    if isinstance(error, ExternError) and not error.name.startswith("eqsat."):
        function = error.name.rpartition(".")[2].partition("[")[0]
        return PluginError(f"{pack.name}: the function {function!r} failed{_place(cause)}: {said}")
    what, used = ("it", ()) if _error(graph, (), ours) else ("what the rules make of it", rules)
    graph = next((part for part in _parts(graph) if _error(part, used, ours)), graph)
    return InputError(
        f"{name}: eqsat itself fails on {what}, and nothing is known of the rules: {said}, at {describe(graph)}"
    )


def _place(error: BaseException) -> str:
    """Returns the first line of a traceback that is not eqsat's, as " at FILE:LINE"; "" if all are."""
    ours = str(Path(__file__).parents[1])
    frames = (f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(ours))
    return next((f" at {f.filename}:{f.lineno}" for f in frames), "")


def _blame(report: Report, rules: Sequence[Rule], graph: TensorGraph, ours: bool, error: Exception) -> None:
    """Records each rule that fails alone, with the smallest part of the graph on which it does, or else the first rule.

    A rule that fails counts as one that matched, even if the e-graph with its matches was lost.
    """
    analyses = [r for r in rules if r.analysis]
    for rule in (r for r in rules if not r.analysis):
        for part in _parts(graph):
            found = _error(part, [*analyses, rule], ours)
            if found and _is_verdict(found):  # a function that fails on this part is no verdict
                report.unsound[rule.name] = f"{_reason(found)}, on the graph {describe(part)}"
                break
    if not any(r.name in report.unsound for r in rules):
        name = next(r.name for r in rules)
        report.unsound[name] = f"together with others: {_reason(error)}, on the graph {describe(graph)}"
    for name in report.unsound:
        report.matches[name] = max(1, report.matches[name])


def _reason(error: Exception) -> str:
    """Returns why a rule is unsound; egglog's message on types that differ is replaced."""
    return _TWO_TYPES if "Illegal merge attempted for function type" in str(error) else str(error)


def _parts(graph: TensorGraph) -> Iterator[TensorGraph]:
    """Yields the graph up to each of its nodes, the smallest first, and then all of it."""
    parts = [TensorGraph(graph.nodes, graph.inputs, [n], ["y"]) for n in graph.live()]
    yield from sorted(parts, key=lambda p: len(p.live()))
    yield graph


def describe(graph: TensorGraph) -> str:
    """Returns a graph as one line of text."""
    from eqsat.explain.record import type_text

    out = []
    for n in graph.live():
        node = graph.nodes[n]
        what = "const" if node.op == "const" else OPS[node.op].text(node.attrs)
        out.append(f"n{n} = {what}({', '.join(f'n{i}' for i in node.inputs)}) {type_text(graph.type(n))}")
    return "; ".join(out)
