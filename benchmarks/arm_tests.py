"""Runs ExecuTorch's own tests of Arm operators, which come with its wheel, with eqsat enabled.

    python -m benchmarks.arm_tests --cases 1000 --jobs 2

Cases of `backends/arm/test/ops` for Ethos-U are drawn by a seed and run as they are while `eqsat.enabled()` lasts. What
fails is run once more without eqsat. The suite compares with an FVP where there is one; without, it expects the missing
FVP after the lowering, and what the binary computes is known by eqsat's own verification. There is a record per case.
Exit code 1 if a case fails with eqsat alone, or a delegate is dearer than stock's, above its SRAM, or not verified.

Takes an hour for 1,000 cases.

As a plugin of pytest (`-p benchmarks.arm_tests`) this module writes what becomes of each case.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.study import ROOT, Study, as_text, decided, markdown_table
from eqsat.bench.records import Record
from eqsat.report.data import geometric_mean
from eqsat.search.result import Result

#: Names of the tests that compile for an Ethos-U.
_NAMES = re.compile(r"_u(55|65|85)")
#: Cases that one process of pytest runs, and the most seconds of each.
_BATCH, _SECONDS = 20, 240
#: Environment variables: the file that the plugin writes, and "1" if eqsat is enabled.
_OUT, _WITH = "ARM_TESTS_OUT", "ARM_TESTS_WITH_EQSAT"
#: Outcomes that the suite expects.
_GOOD = ("passed", "xfailed", "skipped")


# ---- the plugin ----------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Runs a case with or without eqsat, and stashes the record of its delegates."""
    begin, session = time.perf_counter(), None
    try:
        with warnings.catch_warnings(), _enabled() as session:
            warnings.simplefilter("default")
            return (yield)
    finally:
        record: Record = {"seconds": round(time.perf_counter() - begin, 2)}
        if session is not None:
            record["delegates"] = [_told(d.result) for d in session.delegates if d.result is not None]
            record["stepped_back"] = [d.error[:300] for d in session.delegates if d.result is None]
        item.stash[_RECORD] = record


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Appends the outcome and the record of a case to the file of the run."""
    report = yield
    if call.when == "call" or not report.passed and call.when == "setup":
        outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
        error = "" if call.excinfo is None else " ".join(call.excinfo.exconly().split())[:300]
        name = item.nodeid[item.nodeid.index("ops/") :]  # independent of where the tests were run
        record = {"case": name, "outcome": outcome, "error": error, **item.stash.get(_RECORD, {})}
        with Path(os.environ[_OUT]).open("a") as f:
            f.write(json.dumps(record) + "\n")
    return report


_RECORD = pytest.StashKey[Record]()


def _enabled() -> contextlib.AbstractContextManager[Any]:
    if os.environ.get(_WITH) != "1":
        return contextlib.nullcontext()
    import eqsat

    return eqsat.enabled(eqsat.Options(remember=False))


def _told(r: Result) -> Record:
    """Returns the part of a result that is recorded."""
    kept = ("verified", "proved", "binary_verified", "binary_reason", "passed_over", "warnings")
    footprints = [f.footprint for f in (r.figures.get("stock"), r.figures["eqsat"]) if f]
    return {
        "cycles": [r.stock_cycles, r.cycles],
        "calibrated": [r.stock_calibrated, r.calibrated],
        "sram": [f and f.sram for f in footprints],
        "sram_limit": r.limits.sram,
        **{name: getattr(r, name) for name in kept},
        "seconds": round(sum(r.seconds.values()), 2),
    }


# ---- drawing and running -------------------------------------------------------------------------


@cache
def cases(*files: str) -> list[str]:
    """Returns the names of all cases in the files that compile for an Ethos-U, sorted.

    Raises RuntimeError if pytest finds none.
    """
    done = _pytest(["--collect-only", "-q", "--continue-on-collection-errors", *files], {})
    found = sorted({line.strip() for line in done.stdout.splitlines() if _NAMES.search(line.partition("::")[2])})
    if not found:
        raise RuntimeError(f"no case was found: {(done.stdout + done.stderr)[-500:]}")
    return found


def drawn(every: Sequence[str], count: int, seed: int) -> list[str]:
    """Returns `count` of the cases, in an order that the seed determines.

    A smaller number gives the first cases of a larger one.
    """
    order = list(every)
    random.Random(seed).shuffle(order)
    return order[:count]


def run(batch: Sequence[str], out: Path, with_eqsat: bool = True) -> list[Record]:
    """Returns the records of cases that one process runs.

    Cases that the process did not reach are run in processes of their own.
    The outcome of one whose own process ends without a record is "died".
    """
    out.unlink(missing_ok=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        _pytest(["-q", *batch], {_OUT: str(out.absolute()), _WITH: str(int(with_eqsat))}, _SECONDS * len(batch))
    lines = out.read_text().splitlines() if out.exists() else []
    out.unlink(missing_ok=True)
    found = {r["case"]: r for r in map(json.loads, lines)}
    missing = [c for c in batch if c not in found]
    if len(batch) == 1:
        return list(found.values()) or [{"case": batch[0], "outcome": "died", "error": "the process ended"}]
    return [*found.values(), *(r for c in missing for r in run([c], out, with_eqsat))]


def _pytest(
    options: Sequence[str], environment: Mapping[str, str], timeout: float = 600.0
) -> subprocess.CompletedProcess[str]:
    """Runs pytest in the directory of the suite."""
    import executorch.backends.arm

    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "benchmarks.arm_tests", f"--timeout={_SECONDS}"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", ".", *plugins, *options],
        cwd=Path(next(iter(executorch.backends.arm.__path__))) / "test",
        env={**os.environ, "PYTHONPATH": str(ROOT), "EQSAT_LOG": "off", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def cells(args: argparse.Namespace, records: Sequence[Record]) -> Iterator[tuple[Record, Sequence[str]]]:
    """Yields the cases of one run of pytest for each job, by their number among those that are drawn."""
    wanted, size = drawn(cases(*args.files), args.cases, args.seed), _BATCH * args.jobs
    known = {r["case"] for r in records}
    for k in range(0, len(wanted), size):
        if left := [c for c in wanted[k : k + size] if c not in known]:
            yield {"seed": args.seed, "first": k, "cases": size}, left


def measure(batch: Sequence[str], args: argparse.Namespace) -> list[Record]:
    """Returns the records of cases, which run in a process for each job."""
    parts = [(batch[k :: args.jobs], args.out / f".batch-{k}.jsonl") for k in range(args.jobs) if batch[k :: args.jobs]]
    with ThreadPoolExecutor(args.jobs) as pool:
        return [r for records in pool.map(compared, *zip(*parts)) for r in records]


def compared(batch: Sequence[str], out: Path) -> list[Record]:
    """Returns the records of cases run with eqsat; those that fail also have the outcome without it, under "alone"."""
    records = run(batch, out)
    failed = [r["case"] for r in records if r["outcome"] not in _GOOD]
    alone = {r["case"]: r for r in (run(failed, out, False) if failed else [])}
    return [{**r, "alone": alone[r["case"]]["outcome"]} if r["case"] in alone else r for r in records]


# ---- reporting -------------------------------------------------------------------------------------


def faults(records: Sequence[Record]) -> list[str]:
    """Returns in words the failures that stock does not have, and the delegates that are wrong.

    These are dearer than stock's, need more SRAM than their limit, or are not verified.
    """
    out = [f"{r['case']}: {r['outcome']}: {r['error']}" for r in records if r.get("alone") in _GOOD]
    for r in records:
        for d in r.get("delegates", ()):
            stock, ours = decided(d)
            if stock is not None and ours > stock:
                out.append(f"{r['case']}: dearer than stock's: {ours} cycles, not {stock}")
            if d["sram_limit"] is not None and d["sram"][-1] > d["sram_limit"]:
                out.append(f"{r['case']}: {d['sram'][-1]} bytes of SRAM of {d['sram_limit']}")
            if not d["verified"] or d["binary_verified"] is False:
                out.append(f"{r['case']}: not verified: {d['binary_reason'] or d['warnings']}")
    return out


def table(records: Sequence[Record], about: Mapping[str, Any]) -> str:
    """Returns the counts, the faults and the failures as Markdown."""
    delegates = [d for r in records for d in r.get("delegates", ())]
    ratios = [ours / stock for stock, ours in map(decided, delegates) if stock]
    added = sorted(sum(d["seconds"] for d in r["delegates"]) for r in records if r.get("delegates"))
    known = Counter(str(d["binary_verified"]) for d in delegates)
    rows = [
        ("cases", len(records)),
        *((f"cases that {outcome}", n) for outcome, n in sorted(Counter(r["outcome"] for r in records).items())),
        ("cases that fail with eqsat and not without", sum(r.get("alone") in _GOOD for r in records)),
        ("delegates", len(delegates)),
        ("stepped back", sum(len(r.get("stepped_back", ())) for r in records)),
        ("verified", sum(d["verified"] for d in delegates)),
        ("proved", sum(d["proved"] for d in delegates)),
        *((f"binary verified: {k}", n) for k, n in sorted(known.items())),
        ("cheaper than stock", sum(r < 1 for r in ratios)),
        ("cycles to stock, geometric mean", f"{geometric_mean(ratios):.3f}" if ratios else "-"),
        ("something passed over for memory", sum(bool(d["passed_over"]) for d in delegates)),
    ]
    if added:
        rows.append(("seconds of eqsat in a case, median", f"{statistics.median(added):.1f}"))
        rows.append(("seconds of eqsat in a case, 95 %", f"{added[int(0.95 * (len(added) - 1))]:.1f}"))
    failed = [r for r in records if r["outcome"] not in _GOOD]
    lines = [
        "# ExecuTorch's Arm operator tests with eqsat",
        "",
        "Cases of `backends/arm/test/ops` for U55, U65 and U85, drawn by a seed. "
        "Made by `python -m benchmarks.arm_tests`.",
        "",
        f"{as_text(about)}.",
        "",
        *markdown_table(("", ""), ((name, f"{n:,}" if isinstance(n, int) else n) for name, n in rows)),
        *(f"* FAULT: {text}" for text in faults(records)),
        *(f"* {r['case']}: {r['outcome']}, without eqsat {r.get('alone', '-')}: {r['error'][:160]}" for r in failed),
        *(f"* {r['case']}: stepped back: {e[:160]}" for r in records for e in r.get("stepped_back", ())),
    ]
    return "\n".join(lines) + "\n"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--files", nargs="+", default=["ops"], help="files or directories of the suite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)


STUDY = Study(__doc__, "arm_tests", options, cells, measure, table, faults)

if __name__ == "__main__":
    sys.exit(STUDY.main())
