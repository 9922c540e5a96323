"""A benchmark run over the commits that recorded it, from the Git checkout of its directory."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqsat.bench.fields import check_about, check_fields
from eqsat.bench.records import place
from eqsat.report.data import RecordedRun, geometric_mean
from eqsat.report.environment import ratio
from eqsat.report.table import ReportTable


@dataclass(frozen=True, slots=True)
class RunVersion:
    """A run as recorded by a commit.

    commit: the one that was measured, if the run names it, else the one that recorded it.
    """

    commit: str
    date: str
    run: RecordedRun

    @property
    def vela(self) -> str:
        return " and ".join(filter(None, self.run.vela))


def versions_of(run: RecordedRun) -> list[RunVersion]:
    """Returns the versions of a run, the oldest first and the run itself last.

    Only the run itself if no commit recorded it.
    """
    out = [
        v
        for line in reversed(_git(run.directory, "log", "--format=%h %cs", "--", "records.jsonl").splitlines())
        if (v := _version(run.directory, *line.split()))
    ]
    if not out or out[-1].run.records != run.records:
        out.append(RunVersion(run.about.get("commit", "now")[:12], run.about.get("date", ""), run))
    return out


def _version(directory: Path, commit: str, date: str) -> RunVersion | None:
    records, about = (_git(directory, "show", f"{commit}:./{name}") for name in ("records.jsonl", "run.json"))
    try:
        found = {place(r): r for r in map(json.loads, records.splitlines())}
        told = json.loads(about or "{}")
        for record in found.values():
            check_fields(record)
        check_about(told)
    except (ValueError, LookupError, TypeError):
        return None  # what cannot be read is no version
    return RunVersion(told.get("commit", commit)[:12], date, RecordedRun(directory, found, told)) if found else None


def _git(directory: Path, *command: str) -> str:
    """Returns the output of Git, "" if there is no Git or no checkout."""
    try:
        done = subprocess.run(["git", "-C", str(directory), *command], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout


def ratios(versions: Sequence[RunVersion], target: str, configuration: str) -> list[dict[str, float]]:
    """Returns the ratios of cycles to the baseline's by model, for each version.

    Models without a ratio are left out.
    """
    return [{m: r for m in v.run.models if (r := v.run.ratio(m, target, configuration)) is not None} for v in versions]


def means(found: Sequence[dict[str, float]]) -> list[float | None]:
    """Returns the geometric mean for each version, over the models that all versions with ratios share.

    None for a version without any.
    """
    some = [set(f) for f in found if f]
    common = set.intersection(*some) if some else set()
    return [geometric_mean(f[m] for m in common) if f and common else None for f in found]


def history(versions: Sequence[RunVersion], target: str, configuration: str) -> ReportTable:
    """Returns the table of cycles to the baseline's by model and version, the newest on the right."""
    found = ratios(versions, target, configuration)
    kept = [(v, f, m) for v, f, m in zip(versions, found, means(found), strict=True) if f]
    rows = [
        (model, *(ratio(f.get(model)) for _, f, _ in kept))
        for model in dict.fromkeys(m for _, f, _ in reversed(kept) for m in f)
    ]
    common = ("(mean over models of all)", *(ratio(m) for _, _, m in kept))
    return ReportTable(
        f"{configuration} on {target}",
        "",
        ("model", *(f"{v.commit[:7]}, {v.date}, Vela {v.vela}" for v, _, _ in kept)),
        (common, *rows) if len(kept) > 1 else (),
    )


def tables(versions: Sequence[RunVersion], run: RecordedRun) -> list[ReportTable]:
    """Returns the tables of eqsat's first configuration, for targets with more than one version."""
    every = [history(versions, t, c) for c in run.optimized[:1] for t in run.targets]
    return [t for t in every if t.rows]


def chart(versions: Sequence[RunVersion], run: RecordedRun) -> str:
    """Returns the chart of geometric means by version, a line per target; "" for a single version."""
    from eqsat.report.figures import COLOURS, figure

    if not tables(versions, run):
        return ""
    configuration = run.optimized[0]

    def draw(made: Any, panels: list[Any]) -> None:
        (axes,) = panels
        for colour, target in zip(COLOURS, run.targets):
            points = [(i, m) for i, m in enumerate(means(ratios(versions, target, configuration))) if m is not None]
            axes.plot(*zip(*points), color=colour, marker="o", label=target)
        axes.set_xticks(range(len(versions)), [f"{v.commit[:7]}\n{v.date}\nVela {v.vela}" for v in versions])
        axes.set(ylabel="cycles to the baseline's", ylim=(0, None))
        axes.grid(True, axis="y", alpha=0.25)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        made.tight_layout()

    return figure(draw, 3.2 + 1.3 * len(versions), 3.4)
