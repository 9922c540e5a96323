"""A run: plan, lower, measure, keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eqsat.bench import isolated, lowering
from eqsat.bench.cells import BEST, Configuration, Model, key, sources
from eqsat.bench.isolated import TaskOutcome
from eqsat.bench.records import CellKey, Record, RunFiles
from eqsat.executorch.names import INT8, check_quantization
from eqsat.ground.files import InputError
from eqsat.ground.process import Limits
from eqsat.target.accelerators import parse_target

#: Called with (number of lowerings and cells done, their number in all, what happened).
CellProgress = Callable[[int, int, str], None]


def run(
    models: Sequence[str],
    targets: Sequence[str],
    configurations: Sequence[str],
    out: Path,
    *,
    jobs: int = 1,
    limits: Limits | None = None,
    quantization: str = INT8,
    progress: CellProgress = lambda done, total, what: None,
) -> list[Record]:
    """Measures every cell that `out` does not hold yet and returns the plan's records in its order.

    models, targets, configurations: see `Model.find`, `parse_target` and `Configuration.parse`.
    jobs: how many tasks run at a time, each in a process of its own.
    limits: on each task.
    quantization: one of QUANTIZATIONS.
    Raises InputError and TargetError before anything starts.

    A cell that fails is a record with `error`.
    If its process was killed or passed a limit, the record also has `lost`, and the next run tries the cell again.
    An interruption leaves a valid partial run.
    """
    plan = _Plan(
        [Model.find(m) for m in models], list(targets), [Configuration.parse(c) for c in configurations], quantization
    )
    plan.check()
    fingerprints = {m.name: m.fingerprint() for m in plan.models}
    files = RunFiles(out)
    files.about(
        models=list(models),
        targets=list(targets),
        configurations=[c.name for c in plan.configurations],
        jobs=jobs,
        quantization=quantization,
        names=[m.name for m in plan.models],
    )
    with closing(files), isolated.threads(jobs) as pool:
        return _Measuring(plan, fingerprints, files, pool, limits or isolated.LIMITS, progress).all()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run measures."""

    models: list[Model]
    targets: list[str]
    configurations: list[Configuration]
    quantization: str

    def check(self) -> None:
        """Raises InputError and TargetError for what cannot be measured."""
        for target in self.targets:
            parse_target(target)
        names = [m.name for m in self.models]
        if twice := [n for n in names if names.count(n) > 1]:
            raise InputError(f"two models would be called {twice[0]!r}: rename one of the files")
        if not self.models or not self.targets or not self.configurations:
            raise InputError("a run needs at least one model, target and configuration")
        for m in self.models:
            check_quantization(self.quantization, m.reference)

    def pairs(self) -> list[tuple[Model, str]]:
        return [(m, t) for m in self.models for t in self.targets]

    def of(self, model: Model) -> list[Configuration]:
        return [c for c in self.configurations if c.applies_to(model)]

    def places(self) -> list[CellKey]:
        return [(m.name, t, c.name) for m, t in self.pairs() for c in self.of(m)]


class _Task(NamedTuple):
    """A call of `function` in a process of its own; subject: what is lowered or measured."""

    subject: tuple[Any, ...]
    function: str
    args: tuple[Any, ...]


@dataclass
class _Measuring:
    """A run under way: all lowerings come first, then all cells; `done` counts both."""

    plan: _Plan
    fingerprints: dict[str, str]
    files: RunFiles
    pool: Executor
    limits: Limits
    progress: CellProgress
    done: int = 0

    def all(self) -> list[Record]:
        places = self.plan.places()
        self.total = len(places) + len(self.plan.pairs())
        self.progress(0, self.total, "starting")
        try:
            tasks = [task for lowered in self._lower() for task in self._to_measure(*lowered)]
            # by function, so that a process rarely changes its work
            for task, outcome in self._outcomes(sorted(tasks, key=lambda task: task.function)):
                self._keep_record(outcome, *task.subject)
        finally:
            self.files.sort(places)
        self.files.save_outlines()
        return [self.files.records[p] for p in places]

    def _outcomes(self, tasks: Iterable[_Task]) -> Iterator[tuple[_Task, TaskOutcome]]:
        """Yields each task with its outcome, in the order in which they end."""
        pending = {self.pool.submit(isolated.attempt, t.function, t.args, self.limits): t for t in tasks}
        for future in as_completed(pending):
            yield pending.pop(future), future.result()

    def _lower(self) -> Iterator[tuple[str, Model, str, TaskOutcome]]:
        """Yields (key, model, target, graphs and side record) of each lowering; what is there is not lowered again."""
        tasks = []
        for model, target in self.plan.pairs():
            cell = key(self.fingerprints[model.name], target, self.plan.quantization, sources())
            saved = self.files.graphs(model.name, target)
            if saved and saved[1]["key"] == cell:
                yield cell, model, target, TaskOutcome(saved)
            elif model.reference.endswith(".tosa"):
                yield cell, model, target, TaskOutcome(lowering.as_given(Path(model.reference), target))
            else:
                args = model.reference, target, self.plan.quantization
                tasks.append(_Task((cell, model, target), "eqsat.bench.lowering:prepare", args))
        for task, outcome in self._outcomes(tasks):
            yield *task.subject, outcome

    def _to_measure(self, lowered: str, model: Model, target: str, outcome: TaskOutcome) -> Iterator[_Task]:
        """Keeps a lowering, and yields the tasks of its cells without a record; if it failed, so did all of them."""
        cells = [(c, (model.name, target, c.name)) for c in self.plan.of(model)]
        if outcome.error:
            self._count(f"{model.name} {target}: the lowering failed")
            for c, at in cells:
                self._keep_record(outcome, key(lowered, c.name, *c.plugins()), at)
            return
        graphs, side = outcome.value
        if "key" not in side:
            side["key"] = lowered
            self.files.save_graphs(model.name, target, graphs, side)
        self._count(f"{model.name} {target}: lowered")
        for c, at in cells:
            cell, function = key(lowered, c.name, *c.plugins()), "eqsat.bench.measure:measure"
            args: tuple[Any, ...] = c.name, side["flags"], graphs, side
            if c.kind == BEST:  # it lowers the model in other layouts, too
                function = "eqsat.bench.best:measure"
                args = *args, (model.reference, target, self.plan.quantization)
            old = self.files.records.get(at)
            if old is not None and old["key"] == cell and "lost" not in old:
                self._count(f"{' '.join(at)}: there already")
            else:
                yield _Task((cell, at), function, args)

    def _keep_record(self, outcome: TaskOutcome, cell: str, at: CellKey) -> None:
        """Keeps the record of a cell: its figures, or why it failed."""
        record: Record = {"model": at[0], "target": at[1], "configuration": at[2], "key": cell}
        if outcome.error:
            record |= {"error": outcome.error, **({"lost": True} if outcome.lost else {})}
        else:
            fields, tosas, rows = outcome.value
            record |= {**fields, "peak_mib": outcome.peak_mib}
            self.files.save_chosen(at, tosas, rows)
        self.files.add(record)
        self._count(f"{' '.join(at)}: " + (record.get("error") or f"{record['cycles']:,} cycles"))

    def _count(self, what: str) -> None:
        self.done += 1
        self.progress(self.done, self.total, what)
