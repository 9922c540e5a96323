"""Referee of versions: what moves and what breaks between releases of Vela and ExecuTorch, in one page.

    python -m benchmarks.versions --graphs RUN/graphs --with .venv/executorch-pins --out benchmarks/results/versions

Measures with what is installed, and once more with each directory of `--with` in front of PYTHONPATH, where other
versions are installed (`pip install --target DIR ethos-u-vela==5.1.0 ...`). Each compiles the saved graphs of
`eqsat bench` (MODEL.DELEGATE.TARGET.KIND.tosa), runs their binaries on the functional model against the TOSA reference
model, compiles the smallest graph of each of Vela's defects (`benchmarks.vela_defects`), and lowers ExecuTorch's own
cases of TRANSPOSEs (`benchmarks.transpose_counts`), stock's graph alone. `records.jsonl` has a line for each,
`summary.md` what differs; an interrupted run goes on where it stopped. Exit code 1 where a binary is wrong with one
pair of versions and right with another.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks import transpose_counts, vela_defects
from benchmarks.about import as_text, write_about
from eqsat.bench.log import Log, Record
from eqsat.device.compile import raw_of
from eqsat.device.verification import verify
from eqsat.ground.files import write_atomically
from eqsat.ground.process import WorkerError
from eqsat.ground.versions import versions
from eqsat.ground.worker import Worker
from eqsat.options.options import Options
from eqsat.report.data import geometric_mean
from eqsat.target import Target
from eqsat.vela.compile import LostOutputs, compile_tosa
from eqsat.vela.defects import DEFECTS

ROOT = Path(__file__).parent.parent
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
#: Packages whose versions name a record.
_COMPARED = ("executorch", "ethos-u-vela", "tosa-tools")
#: The keys that identify a record.
_IDENTITY = ("with", "what", "name", "target")
#: Relative changes of cycles or bytes below this are not reported.
_NOISE = 0.01
#: Samples on which a binary runs.
_SAMPLES = 4


def measured(asked: Sequence[tuple[str, str, str]], graphs: Path | None, known: Log) -> Iterator[Record]:
    """Yields the records of what is asked that are not known yet.

    asked: from `asked_for`.
    They are of the versions that this process has.
    """
    name = called()
    with Worker() as via:
        for what, one, target in asked:
            identity = {"with": name, "what": what, "name": one, "target": target}
            if tuple(identity.values()) not in known.records:
                yield identity | _MEASURES[what](graphs, one, target, via)


def called() -> str:
    """Returns the versions that this process has, in words."""
    return ", ".join(f"{k} {v}" for k, v in versions(_COMPARED).items())


def asked_for(graphs: Path | None, targets: Sequence[str], defects: int, cases: int) -> Iterator[tuple[str, str, str]]:
    """Yields (what, name, target) of all saved graphs, and of the first `defects` defects and `cases` cases."""
    for path in sorted(graphs.glob("*.tosa")) if graphs else ():
        for target in targets:
            if f".{target}." in path.name:
                yield "graph", path.name, target
    for target in targets:
        yield from (("defect", d.name, target) for d in DEFECTS[:defects])
    for name in list(transpose_counts.cases())[:cases] if cases else ():
        yield from (("case", name, target) for target in targets if target in transpose_counts.TARGETS)


def _graph(graphs: Path | None, name: str, target: str, via: Worker) -> Record:
    assert graphs is not None
    data, compiled_for = (graphs / name).read_bytes(), Target.of(target)
    try:
        found = compile_tosa(data, compiled_for, via)
        raw = raw_of(found)
        verdict = verify(data, compiled_for, via, _SAMPLES)
    except (WorkerError, LostOutputs) as e:
        return {"outcome": "refused", "reason": _short(e)}
    figures = {"cycles": found.cycles, "sram": found.memory.get("Sram", {}).get("peak", 0)}
    flash = len(raw["stream"]) + len(raw["read_only"])
    return {**figures, "flash": flash, "outcome": _outcome(verdict.equal), "reason": verdict.reason[:200]}


def _outcome(equal: bool | None) -> str:
    return {True: "right", False: "wrong", None: "not judged"}[equal]


def _short(e: Exception) -> str:
    return " ".join(str(e).split())[:200]


def _defect(_: Path | None, name: str, target: str, via: Worker) -> Record:
    defect = next(d for d in DEFECTS if d.name == name)
    try:
        found = vela_defects.verdict(defect, Target.of(target), via)
    except WorkerError as e:
        return {"outcome": "refused", "reason": _short(e)}
    return {"outcome": _outcome(found.equal), "reason": found.reason[:200]}


def _case(_: Path | None, name: str, target: str, __: Worker) -> Record:
    """Returns the record of stock's graph; what eqsat makes of it belongs to the versions of eqsat."""
    found = transpose_counts.measure(name, target, Options(effort=0, remember=False))
    if "error" in found:
        return {"outcome": "refused", "reason": found["error"][:200]}
    cycles, transposes = found["cycles"]["stock"], found["transposes"]["stock"]
    return {"cycles": cycles, "transposes": transposes, "outcome": "right" if found["verified"] else "wrong"}


#: The functions that measure, by what they measure.
_MEASURES = {"graph": _graph, "defect": _defect, "case": _case}
#: Keys of the figures of a record.
_FIGURES = ("cycles", "sram", "flash", "transposes")


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """Returns the figures of each pair of versions as Markdown.

    Then it tells what moved and what broke between each of the others and the first.
    """
    by: dict[str, dict[tuple[str, str, str], Mapping[str, Any]]] = {}
    for r in records:
        by.setdefault(r["with"], {})[r["what"], r["name"], r["target"]] = r
    first, *others = by
    lines = [f"| versions | {' | '.join(_WORDS)} |", "|---|" + "--:|" * len(_WORDS)]
    lines += [f"| {name} | {' | '.join(_counts(found.values(), _WORDS))} |" for name, found in by.items()]
    for other in others:
        lines += ["", f"## From {other} to {first}", "", *_moved(by[other], by[first])]
    return "\n".join(lines) + "\n"


#: Columns of the table: outcomes of graphs, of defects and of cases, and TRANSPOSEs.
_WORDS = ("graphs right", "wrong", "refused", "defects wrong", "cases refused", "TRANSPOSEs of stock's cases")


def _counts(records: Any, words: Sequence[str]) -> list[str]:
    found = list(records)
    outcomes = Counter((r["what"], r["outcome"]) for r in found)
    transposes = sum(r.get("transposes") or 0 for r in found)
    asked = ("graph", "right"), ("graph", "wrong"), ("graph", "refused"), ("defect", "wrong"), ("case", "refused")
    return [*(f"{outcomes[k]}" for k in asked), f"{transposes:,}"][: len(words)]


def _moved(old: Mapping[Any, Mapping[str, Any]], new: Mapping[Any, Mapping[str, Any]]) -> Iterator[str]:
    """Yields how cycles moved in the mean, and a row for each outcome or figure that changed."""
    both = [k for k in new if k in old]
    for target in dict.fromkeys(t for _, _, t in both):
        pairs = [(old[k].get("cycles"), new[k].get("cycles")) for k in both if k[0] == "graph" and k[2] == target]
        ratios = [b / a for a, b in pairs if a and b]
        if ratios:
            yield f"* {target}: cycles of {len(ratios)} graphs by {geometric_mean(ratios):.3f} (geometric mean)"
    changes = [line for k in both for line in _changes(k, old[k], new[k])]
    yield from (
        ["", "| what | on | | before | after |", "|---|---|---|--:|--:|", *changes] if changes else ["* nothing else"]
    )


def _changes(key: tuple[str, str, str], old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    what, name, target = key
    if old["outcome"] != new["outcome"]:
        reason = (new if new["outcome"] != "right" else old).get("reason", "")
        yield f"| {what} {name} | {target} | {_plain(reason)} | {old['outcome']} | **{new['outcome']}** |"
    for figure in _FIGURES:
        a, b = old.get(figure), new.get(figure)
        if a is not None and b is not None and abs(b - a) > _NOISE * max(a, b):
            yield f"| {what} {name} | {target} | {figure} | {a:,} | {b:,} |"


def _plain(text: str) -> str:
    return text.replace("|", "/")[:100]


def broken(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns (name, target) of graphs whose binary is wrong with one pair of versions and right with another."""
    outcomes: dict[tuple[str, str], set[str]] = {}
    for r in records:
        if r["what"] == "graph":
            outcomes.setdefault((r["name"], r["target"]), set()).add(r["outcome"])
    return [k for k, found in outcomes.items() if {"right", "wrong"} <= found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=Path, help="directory of saved graphs")
    parser.add_argument("--with", dest="others", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("-t", "--targets", nargs="+", default=list(TARGETS))
    parser.add_argument("--defects", type=int, default=sys.maxsize, help="of Vela's")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="of ExecuTorch's cases of TRANSPOSEs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="store_true", help="measure with the versions of this process, without a page")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for place in () if arguments.only else arguments.others:
        path = os.pathsep.join(map(str, (ROOT, place.resolve(), os.environ.get("PYTHONPATH", ""))))
        command = [sys.executable, "-m", "benchmarks.versions", "--only", *sys.argv[1:]]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
    log = Log(arguments.out / "records.jsonl", itemgetter(*_IDENTITY))
    asked = list(asked_for(arguments.graphs, arguments.targets, arguments.defects, arguments.cases))
    for record in measured(asked, arguments.graphs, log):
        log.add(record)
    if arguments.only:
        return
    log.sort(sorted(log.records, key=lambda k: (k[0] != called(), k)))  # type: ignore[index]
    records = list(log.records.values())
    written = write_about(arguments.out, ("eqsat", *_COMPARED))
    text = f"# Versions\n\n{as_text(written)}\n\n{summary(records)}"
    write_atomically(arguments.out / "summary.md", text.encode())
    print(text)
    if found := broken(records):
        print("right with one pair of versions and wrong with another:", *(f"{n} on {t}" for n, t in found))
        raise SystemExit(1)


if __name__ == "__main__":
    main()
