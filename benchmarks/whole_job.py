"""Compares the seconds that stock and eqsat need from a quantized program to its .pte.

    python -m benchmarks.whole_job

Each job is a process of its own, which loads the quantized program before the clock starts. The price cache is new for
each network and target, but for the jobs called again, which finds the answer of the default, other-weights, which
finds the choice of another training, and warm, which finds prices alone. Nothing else should run on the machine.
A record has wall seconds, processor seconds of all processes, cycles by Vela's total and calibrated ones, and eqsat's
seconds by stage.

Takes an hour for 18 cells on 2 cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.exir import to_edge_transform_and_lower

import eqsat
from benchmarks.models import ZOO, load
from benchmarks.study import ROOT, TARGETS, Study, as_text, decided, listed, markdown_table, processor_seconds
from eqsat.executorch.loading import load_program, quantize
from eqsat.report.data import geometric_mean


@dataclass(frozen=True, slots=True)
class Job:
    """A way of a quantized program to its .pte.

    effort: of eqsat, None for stock ExecuTorch; jobs of one effort share their prices.
    remember: whether it keeps its answer, or takes a known one.
    trained: whether the program is that of the network after more training.
    """

    name: str
    effort: int | None = None
    remember: bool = False
    trained: bool = False


#: The job of stock ExecuTorch, and all jobs in the order in which they run.
STOCK = Job("stock")
JOBS = (
    STOCK,
    Job("default", 2, True),
    Job("again", 2, True),
    Job("other-weights", 2, True, True),
    Job("warm", 2),
    Job("effort-1", 1),
)
#: How much more training changes weights, in standard deviations of the weights.
_CHANGE = 0.1


def cells(args: argparse.Namespace, _: object) -> Iterator[tuple[dict[str, str], tuple[str, str]]]:
    for model, target in product(args.models, args.targets):
        yield {"name": model, "target": target}, (model, target)


def measure(cell: tuple[str, str], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the record of one cell."""
    (model, target), record = cell, dict[str, Any]()
    with tempfile.TemporaryDirectory() as place:
        asked = {j.trained for j in JOBS if j.name in args.jobs}
        programs = {trained: Path(place) / f"program-{trained}.pt2" for trained in asked}
        for trained, program in programs.items():
            save_program(model, target, program, trained)
        for k, job in enumerate(JOBS):
            if job.name in args.jobs:
                prices = Path(place) / f"prices-{job.effort}"
                record[job.name] = _run(str(k), target, programs[job.trained], prices)
    return [{"jobs": record}]


def save_program(model: str, target: str, path: Path, trained: bool = False) -> None:
    """Writes the quantized program of a model, on request as it is after more training."""
    module, inputs = load(model)
    if trained:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(1)
            for weights in (p for p in module.parameters() if p.numel() > 1):
                weights.add_(_CHANGE * weights.std() * torch.randn_like(weights))
    torch.export.save(quantize(module, inputs, EthosUCompileSpec(target)), path)


def _run(*given: str | Path) -> Any:
    """Returns what a job prints in a process of its own, or its error."""
    command = [sys.executable, "-m", "benchmarks.whole_job", "--job", *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"error": done.stderr.strip()[-500:]}
    return json.loads(lines[-1])


def _job(number: str, target: str, program: str, cache: str) -> dict[str, Any]:
    """Runs a job and returns its record: seconds, bytes and cycles."""
    job, spec = JOBS[int(number)], EthosUCompileSpec(target)
    given, _ = load_program(program, spec)
    began, processor = time.perf_counter(), processor_seconds()
    session = None
    if job.effort is None:
        edge = to_edge_transform_and_lower(given, partitioner=[EthosUPartitioner(spec)])
    else:
        options = eqsat.Options(effort=job.effort, cache=Path(cache), remember=job.remember)
        edge, session = eqsat.lower_with_session(given, spec, options=options)
    size = len(edge.to_executorch().buffer)
    seconds, processor = time.perf_counter() - began, processor_seconds() - processor
    record: dict[str, Any] = {"seconds": round(seconds, 3), "processor": round(processor, 3), "pte_bytes": size}
    if session is not None:
        stages = Counter(session.seconds)
        for r in session.results:
            stages.update({f"search: {k}": v for k, v in r.seconds.items()})
        figures = ("cycles", "stock_cycles", "calibrated", "stock_calibrated")
        record |= {name: getattr(session, name) for name in figures}
        record["respelled"] = sum(r.respelled for r in session.results)
        record["stages"] = {k: round(v, 3) for k, v in stages.items()}
    return record


def table(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Returns the ratios of all cells as Markdown."""
    names = [j.name for j in JOBS if j is not STOCK and any(j.name in r["jobs"] for r in records)]
    columns = [*names, *(f"cycles, {n}" for n in names[1:])]
    lines = [
        "# The whole job",
        "",
        "Wall time from a quantized program to its .pte, to stock ExecuTorch's, "
        "and cycles to those of the default. Made by `python -m benchmarks.whole_job`.",
        f"{as_text(about)}; {os.cpu_count()} cores.",
        "",
    ]
    shown: list[list[str]] = []
    rows: dict[str, list[list[float]]] = {}
    for r in sorted(records, key=itemgetter("target", "name")):
        jobs, cell = r["jobs"], [r["name"], r["target"]]
        if any("error" in j for j in jobs.values()):
            shown.append([*cell, "failed", *[""] * len(columns)])
            continue
        stock, cycles = jobs[STOCK.name]["seconds"], [decided(jobs[n]) for n in names]
        row = [*(jobs[n]["seconds"] / stock for n in names), *(c / cycles[0] for c in cycles[1:])]
        rows.setdefault(r["target"], []).append(row)
        shown.append([*cell, f"{stock:.1f}", *(f"{x:.3f}" for x in row)])
    for target, found in rows.items():
        for what, of in ((f"geometric mean of {len(found)}", geometric_mean), ("most", max)):
            figures = (f"**{of(c):.3f}**" for c in zip(*found, strict=True))
            shown.append([f"**{what}**", target, "", *figures])
    return "\n".join([*lines, *markdown_table(("model", "target", "stock, s", *columns), shown, names=2)])


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", type=listed, default=list(ZOO))
    parser.add_argument("--targets", type=listed, default=TARGETS)
    parser.add_argument("--jobs", type=listed, default=[j.name for j in JOBS])


STUDY = Study(__doc__, "whole_job", options, cells, measure, table)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(_job(*sys.argv[2:])))
    else:
        raise SystemExit(STUDY.main())
