"""Compares extractors on graph files: their costs, their seconds and what they prove.

    python -m benchmarks.extraction DIR --extractors portfolio,dag_greedy --out OUT

DIR, or several by commas, holds extraction-gym JSON or choice-graph JSON files (see `extraction.io`), gzip'd or not, in
any depth; saved runs have one.

Takes up to the time limit for each graph and extractor, 45 minutes for extraction-gym by six of them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.extraction.table import markdown
from benchmarks.study import Study, as_text, listed
from eqsat.bench.fingerprint import fingerprint, submodules
from eqsat.bench.log import Record
from eqsat.ground.files import InputError
from eqsat.runs.codec import CHOICE_GRAPH
from extraction import ChoiceGraph, ExtractionError, InvalidGraph, extract, find
from extraction.io import FORMAT, from_json, parse_gym, read_json

_PROCESSES = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN


@dataclass(frozen=True)
class Instance:
    """A graph file.

    name: its path below the directory, without suffixes; that of the run's directory for a saved run's.
    digest: of its bytes.
    """

    name: str
    path: Path
    digest: str = ""

    def load(self) -> ChoiceGraph:
        """Returns the graph of a choice-graph file or of an extraction-gym file.

        Roots that were merged away are skipped; files of lean-egg have them.
        Raises InvalidGraph.
        """
        data = read_json(self.path)
        if data.get("format") == FORMAT:
            return from_json(data)
        return parse_gym(data, skip_missing_roots=True)


def instances(directory: Path) -> Iterator[Instance]:
    """Yields all graph files below `directory`, the smallest first.

    Other JSON files are skipped.
    """
    files = [p for p in directory.rglob("*") if p.name.endswith((".json", ".json.gz"))]
    for path in sorted(files, key=lambda p: (p.stat().st_size, p)):
        data = read_json(path)
        if isinstance(data, dict) and ("root_eclasses" in data or data.get("format") == FORMAT):
            yield Instance(_name(path, directory), path, sha256(path.read_bytes()).hexdigest()[:16])


def _name(path: Path, directory: Path) -> str:
    if path.name == CHOICE_GRAPH:
        within = path.parent.relative_to(directory).as_posix()
        return directory.resolve().name if within == "." else within
    return path.relative_to(directory).as_posix().removesuffix(".gz").removesuffix(".json")


@lru_cache(1)
def _loaded(instance: Instance) -> ChoiceGraph | None:
    """Returns the graph of an instance, None for one that is no graph, which it prints."""
    try:
        return instance.load()
    except InvalidGraph as e:
        print(f"{instance.name} left out: {e}")
        return None


def cells(args: argparse.Namespace, _: object) -> Iterator[tuple[Record, tuple[Instance, str, int]]]:
    """Yields each instance with each extractor and seed. Raises SystemExit for what there is not."""
    try:
        for extractor in args.extractors:
            find(extractor)
    except InputError as e:
        raise SystemExit(f"error: {e}") from e
    for directory in map(Path, args.directories):
        if not directory.is_dir():
            raise SystemExit(f"error: {directory} is not a directory")
        for instance in (i for i in instances(directory) if args.only in i.name):
            for extractor, seed in ((e, int(s)) for e in args.extractors for s in args.seeds):
                cell = {"instance": instance.name, "digest": instance.digest, "extractor": extractor, "seed": seed}
                yield {**cell, "time_limit": args.time_limit}, (instance, extractor, seed)


def measure(subject: tuple[Instance, str, int], args: argparse.Namespace) -> list[Record]:
    """Returns the record of one cell, none of a file that is no graph.

    seconds: wall time of `extract` alone, without reading the file.
    cpu_seconds: processor time of all its processes.
    peak_mib: peak memory of this process so far, and that of the largest of those that it started.
    """
    instance, extractor, seed = subject
    graph = _loaded(instance)
    if graph is None:
        return []
    record: Record = {"n_nodes": graph.n_nodes, "n_classes": graph.n_classes}
    start, before = time.perf_counter(), cpu_seconds()
    try:
        found = extract(graph, extractor, time_limit=args.time_limit, seed=seed).unless_interrupted()
    except ExtractionError as error:
        told: Record = {"cost": None, "lower_bound": None, "status": type(error).__name__, "message": str(error)}
        return [{**record, **told, "seconds": time.perf_counter() - start}]
    told = {
        "cost": found.cost,
        "lower_bound": found.lower_bound if found.lower_bound > float("-inf") else None,
        "status": found.status,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": cpu_seconds() - before,
        "peak_mib": [resource.getrusage(who).ru_maxrss >> 10 for who in _PROCESSES],
        "trace": [list(step) for step in found.trace],
    }
    return [{**record, **told}]


def cpu_seconds() -> float:
    """Returns the processor seconds of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def table(records: Sequence[Record], about: Mapping[str, Any]) -> str:
    """Returns the tables of the records, beside the published values that `--known` or the first directory has."""
    given = about["arguments"]
    path = Path(given["known"] or Path(given["directories"][0]) / "known_values.json")
    known = json.loads(path.read_text()) if path.exists() else {}
    return f"# Extractors\n\n{as_text(about)}.\n\n{markdown(records, known)}"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directories", type=listed, metavar="DIR", help="directories of graph files, comma-separated")
    parser.add_argument("--extractors", type=listed, default=["portfolio", "dag_greedy"])
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one cell")
    parser.add_argument("--seeds", type=listed, default=["0"], help="comma-separated seeds")
    parser.add_argument("--only", default="", help="only instances whose name contains this")
    parser.add_argument("--known", type=Path, help="published values (default: known_values.json in the first DIR)")


def sources() -> str:
    return fingerprint(submodules("extraction"))


PACKAGES = ("eqsat", "clingo", "networkx", "numpy")
STUDY = Study(__doc__, "extraction", options, cells, measure, table, packages=PACKAGES, sources=sources)

if __name__ == "__main__":
    raise SystemExit(STUDY.main())
