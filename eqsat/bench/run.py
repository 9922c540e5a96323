"""A run: plan, lower, measure, keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from eqsat.bench import isolated, litert, lowering
from eqsat.bench.cells import BEST, LITERT, Configuration, Model, key, sources
from eqsat.bench.fields import Record
from eqsat.bench.isolated import TaskOutcome
from eqsat.bench.records import CellKey, RunFiles
from eqsat.executorch.names import INT8, check_quantization
from eqsat.ground.files import InputError
from eqsat.ground.process import Limits
from eqsat.target.configuration import parse_target

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
    cold: bool = False,
    litert_environment: Path | None = None,
    quantization: str = INT8,
    progress: CellProgress = lambda done, total, what: None,
) -> list[Record]:
    """Measures every cell that `out` does not hold yet and returns the plan's records in its order.

    models: see `Model.find`.
    targets: see `parse_target`.
    configurations: see `Configuration.parse`.
    jobs: how many tasks run at a time, each in a process of its own.
    limits: on each task.
    cold: see `measure`.
    quantization: one of QUANTIZATIONS.
    Raises InputError and TargetError before anything starts.

    A cell that fails is a record with `error`.
    If its process was killed or passed a limit, the record also has `lost`.
    The next run tries such a cell again.
    An interruption leaves a valid partial run.
    """
    plan = _Plan(
        [Model.find(m) for m in models],
        list(targets),
        [Configuration.parse(c) for c in configurations],
        litert_environment,
        quantization,
    )
    files = RunFiles(out)
    files.about(
        models=list(models),
        targets=list(targets),
        configurations=[c.name for c in plan.configurations],
        jobs=jobs,
        cold=cold,
        quantization=quantization,
        names=plan.names,
    )
    with closing(files), isolated.threads(jobs) as pool:
        return _Measuring(plan, files, pool, limits or isolated.LIMITS, cold, progress).all()


class _Plan:
    def __init__(
        self,
        models: list[Model],
        targets: list[str],
        configurations: list[Configuration],
        environment: Path | None,
        quantization: str,
    ):
        for target in targets:
            parse_target(target)
        self.names = [m.name for m in models]
        if twice := [n for n in self.names if self.names.count(n) > 1]:
            raise InputError(f"two models would be called {twice[0]!r}: rename one of the files")
        if not models or not targets or not configurations:
            raise InputError("a run needs at least one model, target and configuration")
        if any(c.kind == LITERT for c in configurations):
            if quantization != INT8:
                raise InputError(f"the configuration {LITERT} quantizes to {INT8} only, not to {quantization}")
            litert.check(environment)
        for m in models:
            check_quantization(quantization, m.reference)
        self.quantization = quantization
        self.configurations, self.environment = configurations, environment
        self.pairs = [(m, t) for m in models for t in targets]
        self.fingerprints = {m.name: m.fingerprint() for m in models}

    def of(self, model: Model) -> list[Configuration]:
        return [c for c in self.configurations if c.applies_to(model)]

    def places(self) -> list[CellKey]:
        return [(m.name, t, c.name) for m, t in self.pairs for c in self.of(m)]


@dataclass(frozen=True, slots=True)
class _Task:
    """A call of `function` in a process of its own; `then` is called with its outcome.

    rank: lowerings (0) come first, then cells (1), then those that lower anew (2), then the LiteRT path (3).
    So a process rarely changes its work.
    """

    rank: int
    then: Callable[[TaskOutcome], None]
    function: str
    args: tuple[Any, ...]


@dataclass
class _Measuring:
    """The tasks of a plan, and how many lowerings and cells are done."""

    plan: _Plan
    files: RunFiles
    pool: Executor
    limits: Limits
    cold: bool
    progress: CellProgress
    tasks: list[_Task] = field(default_factory=list)
    done: int = 0

    def __post_init__(self) -> None:
        lowerings = sum(any(c.kind != LITERT for c in self.plan.of(m)) for m, _ in self.plan.pairs)
        self.total = len(self.plan.places()) + lowerings

    def all(self) -> list[Record]:
        self.progress(0, self.total, "starting")
        try:
            for model, target in self.plan.pairs:
                self._start(model, target)
            while self.tasks:
                ready, self.tasks = sorted(self.tasks, key=attrgetter("rank")), []
                pending = {self.pool.submit(isolated.attempt, t.function, t.args, self.limits): t.then for t in ready}
                for future in as_completed(pending):
                    pending.pop(future)(future.result())  # which adds tasks after a lowering
        finally:
            self.files.sort(self.plan.places())
        self.files.save_outlines()
        return [self.files.records[p] for p in self.plan.places()]

    def _start(self, model: Model, target: str) -> None:
        own, configurations = self.plan.fingerprints[model.name], self.plan.of(model)
        for c in (c for c in configurations if c.kind == LITERT):
            cell, environment = key(own, target, litert.fingerprint()), str(self.plan.environment)
            at = model.name, target, c.name
            self._measure(3, cell, at, "eqsat.bench.litert:measure", model.reference, target, environment)
        if all(c.kind == LITERT for c in configurations):
            return
        lowered = key(own, target, self.plan.quantization, sources())
        saved = self.files.graphs(model.name, target)
        if saved and saved[1]["key"] == lowered:
            self._lowered(lowered, model, target, TaskOutcome(saved))
        elif model.reference.endswith(".tosa"):
            self._lowered(lowered, model, target, TaskOutcome(lowering.as_given(Path(model.reference), target)))
        else:
            then, args = partial(self._lowered, lowered, model, target), (model.reference, target)
            self.tasks.append(_Task(0, then, "eqsat.bench.lowering:prepare", (*args, self.plan.quantization)))

    def _lowered(self, lowered: str, model: Model, target: str, outcome: TaskOutcome) -> None:
        cells = [(c, (model.name, target, c.name)) for c in self.plan.of(model) if c.kind != LITERT]
        if outcome.error:
            self._count(f"{model.name} {target}: the lowering failed")
            for c, at in cells:
                self._measured(key(lowered, c.name), at, outcome)
            return
        graphs, side = outcome.value
        if "key" not in side:
            side["key"] = lowered
            self.files.save_graphs(model.name, target, graphs, side)
        self._count(f"{model.name} {target}: lowered")
        about = [side[k] for k in ("flags", "stock_errors", "pte_frame_bytes")]
        for c, at in cells:
            module = f"eqsat.bench.{'best' if c.kind == BEST else 'measure'}"
            files = (graphs[n] for n in sorted(graphs))
            cell = key(*files, json.dumps(about), c.name, sources(), *c.plugins())
            args = c.name, side["flags"], graphs, side, self.cold
            if c.kind == BEST:  # it lowers the model in other layouts, too
                source = model.reference, target, self.plan.quantization
                self._measure(2, key(cell, lowered), at, f"{module}:measure", *args, source)
            else:
                self._measure(1, cell, at, f"{module}:measure", *args)

    def _measure(self, rank: int, cell: str, at: CellKey, function: str, *args: Any) -> None:
        """Adds the task of a cell, unless its record is there already."""
        old = self.files.records.get(at)
        if old is not None and old["key"] == cell and "lost" not in old:
            self._count(f"{' '.join(at)}: there already")
        else:
            self.tasks.append(_Task(rank, partial(self._measured, cell, at), function, args))

    def _measured(self, cell: str, at: CellKey, outcome: TaskOutcome) -> None:
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
