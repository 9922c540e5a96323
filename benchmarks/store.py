"""Whatever happens to a store, an answer stays what it was: random damage, kills and races.

    python -m benchmarks.store --events 10000 --searches 48

An event damages a store as a disk, a network or a killed process may, or worse, and reads it back: an entry has to be
as it was written, or absent. In the store on this machine bytes of the file and rows are changed, in the shared folder
and in an export bytes of files; writers are killed with SIGKILL, and several processes write, read, clear and export at
once. A search optimizes a graph from a store that was damaged so: its answer has to be verified and that of an empty
store, to the byte; where only the choice for its structure is left, to the cycle.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from functools import partial, reduce
from pathlib import Path

from benchmarks.about import as_text, write_about
from eqsat.ground.files import InputError, write_atomically
from eqsat.options.options import Options
from eqsat.search.answer_store import AnswerStore
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.store.local import LocalStore
from eqsat.store.shared import SharedStore
from eqsat.store.store import ANSWERS, PRICES, exported, imported

ROOT = Path(__file__).parents[1]
#: The graph of whole searches, and its target.
SOURCE, TARGET = ROOT / "examples/upscale.tosa", "ethos-u85-256"
_PACKAGES = ("ethos-u-vela", "egglog", "fsspec")
#: Numbers of entries of a store that have the sizes of prices and of answers.
_PRICES, _ANSWERS = 40, 8
#: One event in _KILL kills a writer, and one in _RACE is a race of _RACERS processes.
_KILL, _RACE, _RACERS = 10, 20, 3
#: Most seconds before a writer is killed, and seconds of a race.
_UNTIL_KILLED, _RACING = 0.02, 0.05


@dataclass
class Count:
    """Counts of one kind of events.

    intact, absent, wrong: entries that were as written, not there, or anything else.
    """

    events: int = 0
    intact: int = 0
    absent: int = 0
    wrong: int = 0

    def add(self, found: Mapping[str, bytes], written: Mapping[str, bytes]) -> None:
        """Counts an event by the entries that were found and those that were written."""
        self.events += 1
        for key, value in written.items():
            read = found.get(key)
            self.intact += read == value
            self.absent += read is None
            self.wrong += read is not None and read != value
        self.wrong += len(found.keys() - written.keys())

    def plus(self, other: Count) -> Count:
        """Returns the sum of both."""
        return Count(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def entries(rng: random.Random) -> dict[str, bytes]:
    """Returns the entries of a store in an event, by key."""
    found = {PRICES.key(f"{rng.getrandbits(128):032x}-0"): rng.randbytes(8) for _ in range(_PRICES)}
    sizes = [rng.choice((50, 3_000, 40_000)) for _ in range(_ANSWERS)]
    return found | {ANSWERS.key(f"{rng.getrandbits(64):016x}/{i}"): rng.randbytes(n) for i, n in enumerate(sizes)}


def filled(path: Path, written: Mapping[str, bytes]) -> LocalStore:
    """Returns a store at `path` with these entries."""
    store = LocalStore(path)
    for kind in (PRICES, ANSWERS):
        store.put({k: v for k, v in written.items() if k.startswith(kind.key(""))}, kind)
    return store


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Returns bytes with the damage of a random accident."""
    raw = bytearray(data or b"\0")
    how = rng.randrange(6)
    at = rng.randrange(len(raw) + 1)
    if how == 0:
        return bytes(raw[:at])
    if how == 1:
        for _ in range(rng.randint(1, 8)):
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    elif how == 2:
        raw[at : at + 512] = bytes(len(raw[at : at + 512]))
    elif how == 3:
        raw[at : at + 4096] = rng.randbytes(len(raw[at : at + 4096]))
    elif how == 4:
        raw[at:at] = rng.randbytes(rng.randint(1, 600))
    else:
        other = rng.randrange(len(raw))
        raw[at : at + 1024] = raw[other : other + len(raw[at : at + 1024])]
    return bytes(raw)


def _read(path: Path) -> dict[str, bytes]:
    """Returns all entries of a store, read as a search reads them."""
    with closing(LocalStore(path)) as store:
        return store.range(*PRICES.range()) | store.range(*ANSWERS.range())


def damaged_file(place: Path, rng: random.Random) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Returns (found, written) after the file of a store was damaged."""
    path, written = place / "store.sqlite", entries(rng)
    filled(path, written).close()
    path.write_bytes(damaged(path.read_bytes(), rng))
    with suppress(InputError):
        return _read(path), written
    return {}, written


def damaged_rows(place: Path, rng: random.Random) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Returns (found, written) after rows of the database were changed by SQL."""
    path, written = place / "store.sqlite", entries(rng)
    filled(path, written).close()
    with closing(sqlite3.connect(path)) as db, db:
        for key in rng.sample(sorted(written), 12):
            what = rng.choice(
                ("value = randomblob(8)", "value = 'text'", "mark = randomblob(16)", "value = x''", "used = 'never'")
            )
            db.execute(f"update entries set {what} where key = ?", (key,))
        two = rng.sample(sorted(written), 2)  # The second takes the place of the first.
        db.execute("delete from entries where key = ?", (two[0],))
        db.execute("update entries set key = ? where key = ?", two)
    return _read(path), written


def damaged_shared(place: Path, rng: random.Random) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Returns (found, written) after files of a shared folder were damaged or swapped."""
    written = {f"answer/{i}": rng.randbytes(rng.choice((8, 3_000, 40_000))) for i in range(4)}
    store = SharedStore(f"file://{place}/shared", read_only=False)
    for name, value in written.items():
        store.put(name, value)
    files = [place / "shared" / name for name in written]
    whole = [file.read_bytes() for file in files]
    for file in rng.sample(files, 2):
        file.write_bytes(damaged(rng.choice(whole), rng))
    return {name: value for name in written if (value := store.get(name)) is not None}, written


def damaged_export(place: Path, rng: random.Random) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Returns (found, written) after an export was damaged and then imported."""
    written = entries(rng)
    with closing(filled(place / "store.sqlite", written)) as store:
        exported(store, place / "file")
    (place / "file").write_bytes(damaged((place / "file").read_bytes(), rng))
    with closing(LocalStore(place / "other.sqlite")) as other, suppress(InputError):
        imported(other, place / "file")
    return _read(place / "other.sqlite"), written


def killed(place: Path, rng: random.Random) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Returns (found, written) after a process was killed while it wrote, exported or cleared."""
    path, written = place / "store.sqlite", entries(rng)
    if rng.random() < 0.5:
        filled(path, written).close()

    def write() -> None:
        store = filled(path, written)
        while True:
            exported(store, place / "file")
            store.clear()
            store.put({k: v for k, v in written.items() if k.startswith("answer")}, ANSWERS)

    child = _forked(write)
    time.sleep(rng.uniform(0, _UNTIL_KILLED))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = _read(path)
    if (place / "file").exists():
        with closing(LocalStore(place / "other.sqlite")) as other:
            imported(other, place / "file")
        found = {**_read(place / "other.sqlite"), **found}
    return found, written


def raced(place: Path, rng: random.Random) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Returns (found, written) after processes wrote, read, cleared and exported one store at once."""
    path, written = place / "store.sqlite", entries(rng)

    def use(seed: float) -> None:
        own, end = random.Random(seed), time.monotonic() + _RACING
        store = filled(path, written)
        while time.monotonic() < end:
            part = dict(own.sample(sorted(written.items()), 10))
            store.put({k: v for k, v in part.items() if k.startswith("answer")}, ANSWERS)
            if any(written[k] != v for k, v in store.get(list(part)).items()):
                os._exit(1)
            own.choice(
                (store.clear, lambda: exported(store, place / "file"), lambda: store.keep("answer:", "answer;", 3))
            )()

    children = [_forked(partial(use, rng.random())) for _ in range(_RACERS)]
    wrong = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    found = _read(path)
    return found | {f"process {i}": b"" for i in range(wrong)}, written


def _forked(work: Callable[[], None]) -> int:
    """Returns the number of a forked process that does some work."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as e:  # noqa: BLE001 - its exit code tells
        print(type(e).__name__, e, file=sys.stderr)
        os._exit(1)
    os._exit(0)


#: Kinds of events that only damage entries.
DAMAGE = {
    "file damaged": damaged_file,
    "rows changed": damaged_rows,
    "shared files damaged": damaged_shared,
    "export damaged": damaged_export,
}


def of_entries(events: Iterable[int], seed: int) -> dict[str, Count]:
    """Returns the counts of events by kind."""
    counts: dict[str, Count] = {name: Count() for name in (*DAMAGE, "writer killed", "processes at once")}
    for number in events:
        rng = random.Random(f"{seed} {number}")
        if number % _RACE == 0:
            name, work = "processes at once", raced
        elif number % _KILL == 1:
            name, work = "writer killed", killed
        else:
            name, work = rng.choice(list(DAMAGE.items()))
        with tempfile.TemporaryDirectory() as place:
            counts[name].add(*work(Path(place), rng))
    return counts


def of_searches(searches: range, seed: int) -> Counter[str]:
    """Returns how often searches from damaged stores had each outcome.

    "remembered": the known answer.
    "respelled": the known choice for the structure.
    "searched": the answer of a new search.
    "named": an InputError that names the damaged file.
    "wrong": any other answer than that from an empty store.
    """
    tosa, found = SOURCE.read_bytes(), Counter[str]()

    def answer(place: Path) -> Result:
        setting = f"{place / 'local'},file://{place / 'shared'}"
        options = Options(effort=1, cache=setting)
        return optimize_tosa(tosa, TARGET, options=options, with_settings=True, store=AnswerStore(setting))

    if not searches:
        return found
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        right = answer(whole)
        for number in searches:
            rng, copy = random.Random(f"{seed} search {number}"), Path(place) / "copy"
            shutil.copytree(whole, copy)
            files = [f for f in copy.rglob("*") if f.is_file()]
            for file in files if rng.random() < 0.5 else rng.sample(files, max(1, len(files) // 2)):
                file.write_bytes(damaged(file.read_bytes(), rng))
            if rng.random() < 0.3:
                shutil.rmtree(copy / "local")
            try:
                found[_kind(answer(copy), right)] += 1
            except InputError:  # The damaged file is no store any more: the error names it and leaves it alone.
                found["named"] += 1
            shutil.rmtree(copy)
    return found


def _kind(result: Result, right: Result) -> str:
    """Returns the outcome of an answer from a damaged store."""
    same = result.corrected == right.corrected if result.respelled else result.tosa == right.tosa
    if not result.verified or not same:
        return "wrong"
    return "remembered" if result.remembered else "respelled" if result.respelled else "searched"


def lines(counts: Mapping[str, Count], searches: Mapping[str, int]) -> Iterator[str]:
    """Yields the page as Markdown."""
    yield "# A store that is damaged, killed and raced for\n"
    yield "| what happened | events | entries intact | absent | wrong |\n|---|---:|---:|---:|---:|"
    for name, c in counts.items():
        yield f"| {name} | {c.events:,} | {c.intact:,} | {c.absent:,} | {c.wrong} |"
    total = reduce(Count.plus, counts.values())
    yield f"| all | {total.events:,} | {total.intact:,} | {total.absent:,} | {total.wrong} |"
    yield (
        f"\nWhole searches from damaged stores: {sum(searches.values())}; {searches.get('remembered', 0)} took the known answer, "
        f"{searches.get('respelled', 0)} the known choice of its structure, "
        f"{searches.get('searched', 0)} searched again, {searches.get('named', 0)} named a file that is no store any more and "
        f"left it alone, {searches.get('wrong', 0)} answered anything else than from an empty store."
    )


def in_processes(jobs: int, events: int, searches: int, seed: int) -> tuple[dict[str, Count], Counter[str]]:
    """Returns the counts of all events and searches, which `jobs` processes share."""
    command = [sys.executable, "-m", "benchmarks.store", "--events", str(events), "--searches", str(searches)]
    more = ["--seed", str(seed), "--jobs", str(jobs), "--part"]
    running = [subprocess.Popen([*command, *more, str(k)], stdout=subprocess.PIPE, cwd=ROOT) for k in range(jobs)]
    counts: dict[str, Count] = {}
    found = Counter[str]()
    for process in running:
        by_kind, of_part = json.loads(process.communicate()[0])
        found += Counter(of_part)
        for name, count in by_kind.items():
            counts[name] = counts.get(name, Count()).plus(Count(**count))
    return counts, found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--searches", type=int, default=48)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", type=int, help="only this part of --jobs, whose counts are printed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/store")
    args = parser.parse_args(argv)
    if args.part is not None:
        part = of_entries(range(args.part, args.events, args.jobs), args.seed)
        found = of_searches(range(args.part, args.searches, args.jobs), args.seed)
        print(json.dumps([{name: vars(c) for name, c in part.items()}, found]))
        return 0
    counts, searches = in_processes(args.jobs, args.events, args.searches, args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    about = write_about(args.out, _PACKAGES, seed=args.seed)
    records = [{"kind": name, **vars(c)} for name, c in counts.items()] + [{"kind": "whole searches", **searches}]
    write_atomically(args.out / "records.jsonl", "".join(json.dumps(r) + "\n" for r in records).encode())
    text = "\n".join([*lines(counts, searches), "", as_text(about), ""])
    write_atomically(args.out / "table.md", text.encode())
    print(text)
    return int(searches["wrong"] > 0 or any(c.wrong for c in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
