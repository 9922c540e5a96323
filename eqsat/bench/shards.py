"""Parts of a run, each made independently on a machine of its own, and their merge into one run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from eqsat.bench.records import RunFiles, place, read_about, read_outlines, read_records
from eqsat.ground.files import InputError, write_atomically

#: Keys of run.json that must agree among runs that are merged.
_SAME = ("commit", "versions", "quantization", "cold")
#: Keys of run.json that give the cells of a whole run.
_PLAN = ("names", "targets", "configurations")
_COPIED = ("graphs", "chosen")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shard:
    """The part `number`, from 1 on, of `of` parts."""

    number: int = 1
    of: int = 1

    @staticmethod
    def parse(text: str) -> Shard:
        """Parses a text such as "2/4". Raises InputError."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(f"{text!r} is no shard: give i/n with i from 1 to n, such as 1/4")
        return Shard(int(found[1]), int(found[2]))

    def pairs(self, models: Sequence[T], targets: Sequence[str]) -> list[tuple[T, str]]:
        """Returns the share of all pairs of a model and a target, a lowering each.

        Raises InputError if the share is empty.
        """
        every = product(enumerate(models), enumerate(targets))
        mine = [(m, t) for (i, m), (k, t) in every if (k * len(models) + i) % self.of == self.number - 1]
        if not mine and models and targets:
            raise InputError(
                f"nothing is left for shard {self}: there are {len(models) * len(targets)} models on targets"
            )
        return mine

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


#: The whole run as one part.
WHOLE = Shard()


def merged(runs: Sequence[Path], out: Path) -> None:
    """Merges the records and files of several runs into the directory of one run.

    Records are in the order of the plan.
    If several runs have a cell, the last record without an error counts.
    Raises InputError if a run has no records or differs from the others in a key of `_SAME`.
    """
    about = [_about(run) for run in runs]
    for key in _SAME:
        if other := next((run for run, a in zip(runs, about, strict=True) if a.get(key) != about[0].get(key)), None):
            raise InputError(f"{other} and {runs[0]} differ in {key}: they are no shards of one run")
    plan = product(*(dict.fromkeys(x for a in about for x in a[k]) for k in _PLAN))
    with closing(RunFiles(out)) as files:
        for run in runs:
            for name in _COPIED:
                if (run / name).is_dir():
                    shutil.copytree(run / name, out / name, dirs_exist_ok=True)
            for record in read_records(run):
                old = files.log.records.get(place(record))
                if old is None or "error" in old or "error" not in record:
                    files.log.add(record)
        files.log.sort(plan)
        files.save_outlines({at: graphs for run in runs for at, graphs in read_outlines(run).items()})
    whole = {k: v for k, v in about[0].items() if k != "shard"}
    text = json.dumps({**whole, "shards": [a.get("shard") for a in about]}, indent=1) + "\n"
    write_atomically(out / "run.json", text.encode())


def _about(run: Path) -> dict[str, Any]:
    """Returns the content of a run's run.json. Raises InputError."""
    about = read_about(run)
    if not all(k in about for k in _PLAN):
        raise InputError(f"{run} has no run.json of a run: give directories that `eqsat bench` made")
    return about
