"""Runs extractors on instances, with one record for each cell; an interrupted run can continue."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path

from benchmarks.study import processor_seconds, write_text
from eqsat.bench.records import Record
from eqsat.ground.files import InputError
from eqsat.runs.codec import CHOICE_GRAPH
from extraction import ChoiceGraph, ExtractionError, InvalidGraph, extract, find
from extraction.io import FORMAT, from_json, parse_gym, read_json

_PROCESSES = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
#: The keys of a record that identify its cell.
_CELL = ("instance", "digest", "extractor", "seed", "time_limit")


def _identity(record: Record) -> tuple[Hashable, ...]:
    return tuple(record[key] for key in _CELL)


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


def run_cell(instance: Instance, graph: ChoiceGraph, extractor: str, time_limit: float, seed: int) -> Record:
    """Returns the record of one cell.

    seconds: wall time of `extract` alone, without reading the file.
    cpu_seconds: processor time of all its processes.
    peak_mib: peak memory of this process so far, and that of the largest of those that it started.
    """
    cell = dict(zip(_CELL, (instance.name, instance.digest, extractor, seed, time_limit), strict=True))
    record: Record = {**cell, "n_nodes": graph.n_nodes, "n_classes": graph.n_classes}
    start, before = time.perf_counter(), processor_seconds()
    try:
        found = extract(graph, extractor, time_limit=time_limit, seed=seed).unless_interrupted()
    except ExtractionError as error:
        failed = {"cost": None, "lower_bound": None, "status": type(error).__name__, "message": str(error)}
        return {**record, **failed, "seconds": time.perf_counter() - start}
    bound = found.lower_bound if found.lower_bound > float("-inf") else None
    return {
        **record,
        "cost": found.cost,
        "lower_bound": bound,
        "status": found.status,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": processor_seconds() - before,
        "peak_mib": [resource.getrusage(who).ru_maxrss >> 10 for who in _PROCESSES],
        "trace": [list(step) for step in found.trace],
    }


def _recorded(out: Path) -> dict[Hashable, Record]:
    """Returns the records of an earlier run.

    Raises InputError if the file is empty, cut off or something else.
    """
    try:
        return {_identity(r): r for r in json.loads(out.read_text())}
    except (ValueError, TypeError, KeyError) as e:
        raise InputError(f"{out} holds no records of this command ({e}): remove it, or name another file") from e


def run_all(
    directory: Path, extractors: list[str], time_limit: float, seeds: list[int], out: Path, only: str = "", say=print
) -> list[Record]:
    """Runs all cells that are not in `out` yet, and returns all records of `out`.

    `out` is written after each cell, so that an interrupted run can continue.
    Raises InputError if `out` has no records of this command, or if there is no such extractor.
    """
    for extractor in extractors:
        find(extractor)
    done = _recorded(out) if out.exists() else {}
    for instance in instances(directory):
        cells = product(extractors, seeds)
        todo = [c for c in cells if (instance.name, instance.digest, *c, time_limit) not in done]
        if only not in instance.name or not todo:
            continue
        try:
            graph = instance.load()
        except InvalidGraph as error:
            say(f"{instance.name:60} left out: {error}")
            continue
        for extractor, seed in todo:
            record = run_cell(instance, graph, extractor, time_limit, seed)
            done[_identity(record)] = record
            _write(done, out)
            cost, status = str(record["cost"]), record["status"]
            say(f"{instance.name:60} {extractor:12} {cost:>22} {status:9} {record['seconds']:.2f} s")
    _write(done, out)
    return list(done.values())


def _write(done: Mapping[Hashable, Record], out: Path) -> None:
    write_text(out, json.dumps(list(done.values()), indent=1) + "\n")
