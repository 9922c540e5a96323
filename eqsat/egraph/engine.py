"""The e-graph engine: egglog 13.2 or 14 through its low-level bindings.

Every attribute is interned: egglog has only its number, an i64; an `int` is that number itself.
No Python runs inside egglog. A computation that egglog cannot do is an `ExternTable`, which has a relation of arguments
with results, and a demand relation of arguments alone.
A rule with extern calls becomes one demand stage per call, and a final stage.
Between these stages Python computes the results for new demands and loads them as rows.

Each rule has a ruleset of its own, so matches and growth are attributed exactly, and limits are checked between rules.
egglog gets a rule only once there are attributes of the kinds that the rule needs: most rules never match in a given
graph, and each costs time in each pass.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from egglog import bindings

from eqsat.egraph.kinds import Kind
from eqsat.ground.files import make_directory

#: Directory of the files from which egglog loads rows, in memory if possible, as disks are slow; None: the system's.
_FACTS = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class EngineError(RuntimeError):
    """A failure of egglog or of an extern, after which the e-graph is unusable and must be dropped."""


class ExternError(EngineError):
    """A failure of a function that rules call, with its name and module; the cause is the function's exception."""

    def __init__(self, name: str, error: Exception):
        super().__init__(f"extern {name}: {type(error).__name__}: {error}")
        self.name = name


class Interner:
    """A numbering of hashable values by consecutive integers from 0."""

    def __init__(self) -> None:
        self._ids: dict[Any, int] = {}
        self._values: list[Any] = []

    def id(self, value: Any) -> int:
        """Returns the number of a value, which is a new one for a new value."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self._values)
            self._values.append(value)
        return found

    def find(self, value: Any) -> int | None:
        """Returns the number of a value, or None if it has none."""
        return self._ids.get(value)

    def __getitem__(self, i: int) -> Any:
        """Returns the value of a number."""
        return self._values[i]

    def since(self, count: int) -> list[Any]:
        """Returns the values after the first `count` ones."""
        return self._values[count:]


@dataclass(frozen=True, slots=True)
class ExternTable:
    """A partial function on interned values, which may give several results.

    n_in, n_out: number of arguments, and of values in a result.
    fn: `fn(*values)` gives None for no result, one tuple, or a list of tuples.
    numbers: places, among arguments and results, of numbers that are not interned.
    """

    name: str
    n_in: int
    n_out: int
    fn: Callable[..., Any]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class EgglogRule:
    """A rule in egglog's syntax, usually made from terms (`rule.py`).

    body, head: facts and actions.
    calls: (result variables, extern, arguments), in order.
    analysis: whether it is an analysis rule, which runs to a fixpoint before each pass of rewrites.
    needs: kinds of attributes without which it matches nothing.
    then: commands that declare the rest of a rule that logs its instances (`log.py`).
    """

    name: str
    body: tuple[str, ...]
    head: tuple[str, ...]
    calls: tuple[tuple[str, str, str], ...] = ()
    analysis: bool = False
    needs: frozenset[Kind] = frozenset()
    then: tuple[str, ...] = ()

    @property
    def externs(self) -> set[str]:
        """Names of the externs that the rule calls."""
        return {extern for _, extern, _ in self.calls}

    @property
    def demands(self) -> str:
        """The ruleset of the demand stages: one for all analyses, one for all rewrites, so that each runs at once."""
        return "demands.analyses" if self.analysis else "demands.rewrites"


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a saturation.

    nodes: e-nodes after a pass.
    seconds: processor time.
    passes: number of passes.
    matches: number of matches of all rules.

    All but `seconds` decide alike on every machine; `seconds` is for what they do not foresee.
    No graph of the model zoo needs 15 s on an idle machine, or half of the matches.
    """

    nodes: int = 40_000
    seconds: float = 900.0
    passes: int = 40
    matches: int = 2_000_000


DEFAULT_BUDGET = Budget()
#: `Saturation.stop` if the machine was too slow, and if the e-graph grew too large.
TIME_LIMIT, NODE_LIMIT = "time limit", "node limit"
#: Limit of e-nodes within a pass, as a multiple of the limit after it.
#: Later rules of a pass may merge e-nodes that earlier ones made.
#: DenseNet-121 has 54,131 e-nodes within its sixth pass, 15,225 after it and 12,426 in the end.
_WITHIN_A_PASS = 2


@dataclass(frozen=True, slots=True)
class Iteration:
    """One pass of a saturation.

    index: its number, from 0.
    nodes: e-nodes after it.
    seconds: wall-clock time.
    matches: {rule: number of matches}, without rules that did not match.
    """

    index: int
    nodes: int
    seconds: float
    matches: dict[str, int]


@dataclass(slots=True)
class Saturation:
    """The course of a saturation.

    stop: "saturated", "node limit", "match limit", "pass limit" or "time limit".
    seconds: wall-clock time.
    """

    stop: str = ""
    iterations: list[Iteration] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def matches(self) -> dict[str, int]:
        """{rule: number of matches} over all passes."""
        out = Counter[str]()
        for it in self.iterations:
            out.update(it.matches)
        return dict(out)


class _Deadline:
    """A limit of the processor time of this thread, in seconds from now on."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._wall, self._processor = time.perf_counter(), time.thread_time()

    def is_over(self) -> bool:
        # A thread has no more processor time than wall-clock time, and some kernels take 0.4 ms to tell it.
        return time.perf_counter() - self._wall > self._seconds and time.thread_time() - self._processor > self._seconds


#: Function of the name of a rule that has just changed the e-graph or logged instances.
Watch = Callable[[str], None]


class Engine:
    """One e-graph, to be used as a context manager by a single thread, which is a limit of egglog's binding."""

    def __init__(self, declarations: Sequence[str], externs: Iterable[ExternTable], rules: Iterable[EgglogRule]):
        """Makes an empty e-graph. Raises EngineError for declarations or rules that egglog refuses."""
        self.intern = Interner()
        self._directory = make_directory(_FACTS)
        self._egraph = bindings.EGraph(fact_directory=self._directory)
        self._externs = {e.name: e for e in externs}
        self._rules = list(rules)
        #: Rules that egglog does not have yet.
        self._waiting = {r.name: r for r in self._rules}
        #: Kinds of attributes that rules need and that do not exist yet.
        self._lacking = {k for r in self._rules for k in r.needs}
        #: Number of interned values that were compared with these kinds.
        self._looked = 0
        self._declared: set[str] = set()
        self._answered: set[str] = set()
        self._watch: Watch | None = None
        self._matched = 0
        try:
            for name in ("load", "demands.analyses", "demands.rewrites", "new", "clear"):
                self.run(f"(ruleset {name})")
            for line in declarations:
                self.run(line)
            self._add_ready()
        except BaseException:
            self.close()
            raise

    def run(self, text: str) -> list[Any]:
        """Runs one egglog command and returns its outputs. Raises EngineError.

        Several commands in one text would take quadratic memory, since egglog 13.2 copies the source into every span.
        """
        try:
            return self._egraph.run_program(*self._egraph.parse_program(text))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:  # noqa: BLE001 - pyo3's PanicException in 13.2, EggSmolError in 14
            raise EngineError(f"egglog: {' '.join(str(e).split())[:500]} in {text[:200]}") from e

    def load(self, relation: str, rows: Iterable[Sequence[int]]) -> None:
        """Loads rows into a relation in bulk. Raises EngineError."""
        name = f"{relation.rstrip('?')}.tsv"
        with open(os.path.join(self._directory, name), "w") as f:
            f.writelines("\t".join(map(str, r)) + "\n" for r in rows)
        self.run(f'(input {relation} "{name}")')

    def _add_ready(self) -> None:
        """Gives egglog the rules whose kinds of attributes exist by now; it matches them against all rows."""
        for value in self.intern.since(self._looked):
            self._lacking -= {k for k in self._lacking if k.accepts(value)}
            self._looked += 1
        for r in [r for r in self._waiting.values() if self._lacking.isdisjoint(r.needs)]:
            self._add(self._waiting.pop(r.name))

    def _add(self, r: EgglogRule) -> None:
        for command in r.then:
            self.run(command)
        self.run(f"(ruleset rs.{r.name})")
        body = list(r.body)
        for k, (outs, extern, args) in enumerate(r.calls):
            if extern not in self._declared and extern in self._externs:
                self._declare(self._externs[extern])
            self.run(f'(rule ({" ".join(body)}) (({extern}? {args})) :ruleset {r.demands} :name "{r.name}?{k}")')
            body.append(f"({extern} {args} {outs})")
        self.run(f'(rule ({" ".join(body)}) ({" ".join(r.head)}) :ruleset rs.{r.name} :name "{r.name}")')

    def _declare(self, e: ExternTable) -> None:
        """Declares an extern's tables: results, all arguments that were ever demanded, and the new ones among these.

        egglog matches a row once, so arguments that are demanded again are not new again.
        """
        self._declared.add(e.name)
        args, sorts = " ".join(f"a{i}" for i in range(e.n_in)), " ".join(["i64"] * e.n_in)
        self.run(f"(relation {e.name} ({' '.join(['i64'] * (e.n_in + e.n_out))}))")
        self.run(f"(relation {e.name}? ({sorts}))")
        self.run(f"(relation {e.name}?new ({sorts}))")
        self.run(f'(rule (({e.name}? {args})) (({e.name}?new {args})) :ruleset new :name "{e.name}")')
        self.run(
            f'(rule (({e.name}?new {args})) ((delete ({e.name}?new {args}))) :ruleset clear :name "clear-{e.name}")'
        )

    # -- saturation -------------------------------------------------------------------------------

    def size(self) -> int:
        """Returns the number of live e-nodes: rows of constructors, whose names begin with a capital, except `Node`."""
        return sum(n for name, n in self.run("(print-size)")[0].sizes if name[0].isupper() and name != "Node")

    def saturate(self, budget: Budget = DEFAULT_BUDGET, watch: Watch | None = None) -> Saturation:
        """Runs all rules until nothing changes or a limit is reached. Raises EngineError.

        watch: called with a rule's name after each rule that changed the e-graph or logged instances.
        """
        self._watch, self._matched = watch, 0
        out, started, deadline = Saturation(), time.perf_counter(), _Deadline(budget.seconds)
        rewrites = [r for r in self._rules if not r.analysis]
        analyses = [r for r in self._rules if r.analysis]
        for index in range(budget.passes):
            before, changed = time.perf_counter(), False
            matches: dict[str, int] = {}
            for group in (analyses, rewrites):
                while True:
                    updated, stop = self._step(group, matches, budget, deadline)
                    changed |= updated
                    if stop or group is rewrites or not updated:
                        break
                if stop:
                    break
            nodes = self.size()
            if not stop and changed and nodes > budget.nodes:
                stop = NODE_LIMIT
            out.iterations.append(Iteration(index, nodes, time.perf_counter() - before, matches))
            if stop:
                out.stop = stop
                break
            if not changed:
                out.stop = "saturated"
                break
        else:
            out.stop = "pass limit"
        if out.stop != "saturated":
            # Every class gets its type, also after a limit.
            for _ in range(budget.passes):
                if not self._step(analyses, {}, None, _Deadline(math.inf))[0]:
                    break
        out.seconds = time.perf_counter() - started
        return out

    def _step(
        self, rules: Sequence[EgglogRule], matches: dict[str, int], budget: Budget | None, deadline: _Deadline
    ) -> tuple[bool, str]:
        """Runs each of the rules once, and adds up their matches in `matches`.

        Returns whether anything changed, and the limit that was reached, "" if none was.
        rules: all analyses or all rewrites. budget: None for no limits of matches and e-nodes.
        """
        updated = self._demands(rules, deadline) > 0
        # Demands may be left, so the e-graph must not be called saturated.
        if deadline.is_over():
            return updated, TIME_LIMIT
        ready = [r for r in rules if r.name not in self._waiting and self._answered.issuperset(r.externs)]
        # Analyses make few e-nodes, so limits are checked once for all of them.
        for group in [ready] if all(r.analysis for r in ready) else [[r] for r in ready]:
            report = self.run(f"(run-schedule {' '.join(f'rs.{r.name}' for r in group)})")[0].report
            found = {r.name: n for r in group if (n := report.num_matches_per_rule.get(r.name))}
            for r in (r for r in group if report.updated and not r.analysis):
                if self._watch:
                    self._watch(r.name)
                if r.then:
                    report = self.run(f"(run-schedule then.{r.name})")[0].report
            updated |= report.updated
            for name, n in found.items():
                matches[name] = matches.get(name, 0) + n
                self._matched += n
            if budget and found:
                if deadline.is_over():
                    return updated, TIME_LIMIT
                if self._matched > budget.matches:
                    return updated, "match limit"
                if report.updated and self.size() > _WITHIN_A_PASS * budget.nodes:
                    return updated, NODE_LIMIT
        return updated, ""

    def _demands(self, rules: Sequence[EgglogRule], deadline: _Deadline) -> int:
        """Loads the results for new demands of rules, and returns the number of these rows."""
        self._add_ready()
        stages = next((r.demands for r in rules if r.calls), None)
        total = 0
        # A result can enable the next demand stage of a rule.
        for _ in range(16):
            if not stages or deadline.is_over():
                return total
            asked = self.run(f"(run {stages} 1)")[0].report.updated
            new = self._answer() if asked else 0
            total += new
            if not new:
                break
            self._add_ready()
        return total

    def _answer(self) -> int:
        """Loads the results for demands that are new, and returns the number of these rows."""
        asked, new = self.run("(run new 1)")[0].report.num_matches_per_rule, 0
        for e in self._externs.values():
            rows = []
            for key in self._rows(f"{e.name}?new") if asked.get(e.name) else ():
                try:
                    result = e.fn(*(k if i in e.numbers else self.intern[k] for i, k in enumerate(key)))
                except Exception as error:  # noqa: BLE001 - a rule's mistake must not be the user's crash
                    raise ExternError(e.name, error) from error
                for values in [] if result is None else result if isinstance(result, list) else [result]:
                    found = (v if i in e.numbers else self.intern.id(v) for i, v in enumerate(values, e.n_in))
                    rows.append((*key, *found))
            if rows:
                self.load(e.name, rows)
                self._answered.add(e.name)
                new += len(rows)
        if any(asked.values()):
            self.run("(run clear 1)")
        return new

    def _rows(self, relation: str) -> list[tuple[int, ...]]:
        """Returns the rows of a relation of numbers."""
        out = self.run(f"(print-function {relation} 100000000)")[0]
        dag = out.termdag
        return [tuple(dag.get(c).value.value for c in dag.get(k).args) for k, _ in out.terms]

    # -- reading ----------------------------------------------------------------------------------

    def freeze(self) -> list[tuple[str, tuple[Any, ...], int]]:
        """Returns all rows of the constructors and of `type` as (name, arguments, result).

        An i64 is an int, a class its number, and a vector of classes a tuple of numbers.
        """
        return self.rows(lambda name: name[0].isupper() or name == "type", {})

    def rows(self, wanted: Callable[[str], bool], number: dict[Any, int]) -> list[tuple[str, tuple[Any, ...], Any]]:
        """Returns the rows of all wanted functions in the form of `freeze`; the result of a relation is None.

        number: {egglog's value: number of its class}; new classes are added, and keep their numbers in later calls.
        """
        frozen = self._egraph.freeze()
        decoded: dict[Any, int] = {}

        def class_of(value: Any) -> int:
            return number.setdefault(value, len(number))

        # not recursive: a cycle would leave the e-graph to the garbage collector, which may run in another thread
        def decode(kind: str, value: Any) -> Any:
            if kind == "T":
                return class_of(value)
            if kind == "i64":
                if value not in decoded:
                    decoded[value] = self._egraph.value_to_i64(value)
                return decoded[value]
            if kind == "TV":
                return tuple(map(class_of, self._egraph.value_to_vec(value)))
            return None

        return [
            (name, tuple(map(decode, f.input_sorts, row.inputs)), decode(f.output_sort, row.output))
            for name, f in frozen.functions.items()
            if wanted(name)
            for row in f.rows
        ]

    def close(self) -> None:
        """Deletes the files from which rows were loaded."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
