"""Makes random changes to binaries, and counts how many of the changes that have an effect are noticed.

    python -m benchmarks.changed_binaries --changes 40

Vela's binaries of random graphs are changed in one place: a bit of a command, a register by one, a field at a limit, a
command or a setting that is gone, a bit of the constants. What the functional model then says is compared with the TOSA
reference model, as in a lowering, on 6 samples. A change is noticed where an output differs, where a rule of the
hardware is broken (`eqsat/device/run.py`, memory, decoding), or where the model does not know the command. One
that is not noticed has no effect where the changed binary is proved to compute the graph for every input, which 48 more
samples must bear out; all others count as missed, and are named by what was changed. There is a record per change.

What proofs and functional model both do not look at is no effect here: the registers are named, too.

Takes a run and a proof for each of 240 changes to a binary.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, cycle, islice
from typing import Any

import numpy as np

from benchmarks.study import Study, as_text, listed, markdown_table
from eqsat.bench.records import Record
from eqsat.device.binary import Binary, compile_binary
from eqsat.device.core.registers import Instruction
from eqsat.device.verification import judge_samples, outputs_of
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.proof import PROVED
from eqsat.proof.binary import prove_binary
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.tosa.reference import pack, run_samples
from tests.device.planted import with_commands
from tests.random_graphs import PROFILES, REFUSED, random_graph

TARGETS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
#: Samples on which a change is tried.
_SAMPLES = 6
#: Samples on which a change that is proved to have no effect is tried once more.
_MORE_SAMPLES = 48
#: Most commands of a binary, since more take long to prove.
_MOST_COMMANDS = 250
_PROFILES = {"INT8": PROFILES["vela"], "INT16": replace(PROFILES["int16"], without=REFUSED)}
#: Inputs, and the outputs of the reference model for them.
Samples = tuple[Sequence[Sequence[np.ndarray]], Sequence[Sequence[np.ndarray]]]


@dataclass(frozen=True, slots=True)
class Change:
    """A binary with one change.

    what: the name of the command or of the memory that was changed.
    """

    kind: str
    what: str
    binary: Binary


@dataclass(frozen=True, slots=True)
class Subject:
    """A graph, its binary, and its outputs for few samples and for more."""

    name: str
    graph: TensorGraph
    binary: Binary
    few: Samples
    more: Samples


#: Changes a binary, by random numbers.
Changing = Callable[[random.Random, Binary], Change]


def _of_command(
    kind: str, is_meant: Callable[[Instruction], bool], changed: Callable[[random.Random, Instruction], Sequence[int]]
) -> Changing:
    """Returns a change of one command.

    is_meant: whether a command can be changed.
    changed: returns the words of the command after the change, none if it is gone.
    """

    def change(r: random.Random, b: Binary) -> Change:
        found = b.instructions()
        k = r.choice([k for k, i in enumerate(found) if is_meant(i)])
        words = [*map(_words, found[:k]), changed(r, found[k]), *map(_words, found[k + 1 :])]
        return Change(kind, found[k].name, replace(b, stream=with_commands(b.stream, list(chain(*words)))))

    return change


def _words(i: Instruction) -> list[int]:
    """Returns the words of a command: one, or two with its payload."""
    first = i.layout.code | i.parameter << 16
    return [first] if i.payload is None else [first, i.payload]


def _bit(r: random.Random, i: Instruction) -> list[int]:
    words = _words(i)
    words[r.randrange(len(words))] ^= 1 << r.randrange(32)
    return words


def _by_one(r: random.Random, i: Instruction) -> list[int]:
    words, step = _words(i), r.choice((-1, 1))
    if i.payload is None:
        return [words[0] & 0xFFFF | (i.parameter + step & 0xFFFF) << 16]
    return [words[0], words[1] + step & 0xFFFFFFFF]


def _field(r: random.Random, i: Instruction) -> list[int]:
    """Sets a field to a limit, or to its successor."""
    field = r.choice(i.layout.fields)
    whole, most = i.parameter | (i.payload or 0) << 16, (1 << field.bits) - 1
    old = whole >> field.first & most
    new = r.choice([n for n in (0, 1, most >> 1, most // 2 + 1, most - 1, most, old + 1 & most) if n != old])
    whole ^= (old ^ new) << field.first
    return [i.layout.code | (whole & 0xFFFF) << 16, *([] if i.payload is None else [whole >> 16])]


def _constant(r: random.Random, b: Binary) -> Change:
    """Flips a bit of the constants."""
    data = bytearray(b.read_only)
    data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    return Change("a bit of the constants", "constants", replace(b, read_only=bytes(data)))


#: The kinds of changes.
CHANGES: tuple[Changing, ...] = (
    _of_command("a bit of a command", lambda i: True, _bit),
    _of_command("a register by one", lambda i: not i.layout.operation, _by_one),
    _of_command("a field at a limit", lambda i: bool(i.layout.fields), _field),
    _of_command("a command gone", lambda i: i.layout.operation, lambda r, i: ()),
    _of_command("a setting gone", lambda i: not i.layout.operation, lambda r, i: ()),
    _constant,
)


def subjects(target: str, wanted: int, via: Pool) -> Iterator[Subject]:
    """Yields `wanted` random graphs whose binaries are right, of INT8 and INT16 in turn."""
    drawn = zip(count(), cycle(_PROFILES.items()))
    made = (_subject(f"{dtype} {k}", random_graph(k, profile), target, via) for k, (dtype, profile) in drawn)
    yield from islice((s for s in made if s is not None), wanted)


def _subject(name: str, graph: TensorGraph, target: str, via: Pool) -> Subject | None:
    buffer = dumps(graph)
    graph = loads(buffer)
    try:
        binary = compile_binary(dumps(graph), Target.of(target), via)
    except WorkerError:
        return None
    if len(binary.commands()) > _MOST_COMMANDS or len(binary.read_only) < 16 or len(graph.inputs) != len(binary.inputs):
        return None
    few, more = (_drawn(graph, buffer, n, via) for n in (_SAMPLES, _MORE_SAMPLES))
    if few is None or more is None:
        return None
    subject = Subject(name, graph, binary, few, more)
    right = outcome(subject, binary, few) == "unnoticed" and prove_binary(graph, binary).verdict == PROVED
    return subject if right else None


def _drawn(graph: TensorGraph, buffer: bytes, size: int, via: Pool) -> Samples | None:
    drawn = samples(domains(graph), size, size)
    answers = run_samples(buffer, drawn, via)
    expected = [a for a in answers if not isinstance(a, WorkerError)]
    return (drawn, expected) if len(expected) == len(answers) else None


def outcome(s: Subject, binary: Binary, on: Samples) -> str:
    """Returns the outcome of a run.

    "wrong": an output differs.
    "rule": the binary breaks a rule of the hardware.
    "unknown": the functional model does not know a command, or cannot judge the outputs.
    "unnoticed": the outputs are equal.
    """
    answers = outputs_of(binary, pack(np.stack(xs) for xs in zip(*on[0], strict=True)))
    if any("fault" in a for a in answers):
        return "rule"
    if any("unknown" in a for a in answers):
        return "unknown"
    found = judge_samples(s.graph, answers, *on).equal
    return {True: "unnoticed", False: "wrong", None: "unknown"}[found]


def _record(s: Subject, target: str, change: Change) -> Record:
    """Returns the record of a change.

    Raises RuntimeError if a change is proved to have no effect and an output differs.
    """
    found = outcome(s, change.binary, s.few)
    if found == "unnoticed":
        proved = prove_binary(s.graph, change.binary).verdict == PROVED
        if proved and outcome(s, change.binary, s.more) != "unnoticed":
            raise RuntimeError(f"{change.kind} {change.what} of {s.name} on {target} is proved, and wrong")
        found = "no effect" if proved else "missed"
    return {"graph": s.name, "kind": change.kind, "what": change.what, "outcome": found}


def cells(args: argparse.Namespace, _: object) -> Iterator[tuple[Record, str]]:
    yield from (({"target": target}, target) for target in args.targets)


def measure(target: str, args: argparse.Namespace) -> Iterator[Record]:
    """Yields a record per change: so many changes of each kind to the binary of each graph."""
    with Pool(1) as via:
        for s in subjects(target, args.graphs, via):
            r = random.Random(f"0:{target}:{s.name}")
            for make in CHANGES:
                for _ in range(args.changes):
                    yield _record(s, target, make(r, s.binary))


def share(records: Sequence[Record]) -> float:
    """Returns the share of the changes with an effect that are noticed."""
    effects = [r["outcome"] != "missed" for r in records if r["outcome"] != "no effect"]
    return sum(effects) / max(1, len(effects))


def summary(records: Sequence[Record], about: Mapping[str, Any]) -> str:
    """Returns counts by kind of change, and what was changed where that is missed or has no effect, as Markdown."""
    head = ("change", "tried", "output differs", "rule broken", "not known", "no effect, proved", "missed", "noticed")
    rows: list[list[object]] = []
    for kind in [*dict.fromkeys(r["kind"] for r in records), "all"]:
        mine = [r for r in records if kind in (r["kind"], "all")]
        counts = Counter(r["outcome"] for r in mine)
        tried = (counts[k] for k in ("wrong", "rule", "unknown", "no effect", "missed"))
        rows.append([kind, len(mine), *tried, f"{share(mine):.1%}"])
    lines = ["# Changed binaries", "", f"{as_text(about)}.", "", *markdown_table(head, rows)]
    for which, text in (("missed", "Missed"), ("no effect", "Without effect")):
        counts = Counter(r["what"] for r in records if r["outcome"] == which)
        named = ", ".join(f"{what} {n}" for what, n in counts.most_common())
        lines += [f"{text}: {named or 'none'}.", ""]
    return "\n".join(lines)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-t", "--targets", type=listed, default=TARGETS)
    parser.add_argument("--graphs", type=int, default=4, help="for each target")
    parser.add_argument("--changes", type=int, default=40, help="of each kind to each binary")


STUDY = Study(__doc__, "changed_binaries", options, cells, measure, summary)

if __name__ == "__main__":
    raise SystemExit(STUDY.main())
