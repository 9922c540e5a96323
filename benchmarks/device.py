"""What Vela emits, run and compared: random graphs and saved networks, their binaries on the functional model against the TOSA reference model.

    python -m benchmarks.device --graphs 500 --targets ethos-u55-128 ethos-u65-512 --out benchmarks/results/device
    python -m benchmarks.device --zoo DIR --targets ethos-u55-128 --out benchmarks/results/device

Graph k of a profile has the seed k. `records.jsonl` has a line per graph, `zoo.jsonl` one per network (files `model.N.target.kind.tosa`), each with
the version of Vela and the commit; an interrupted run goes on where it stopped, unless the sources have changed. Where a binary differs the graph is cut down
while it does, and what is left is named by its operators. `summary.md` counts.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.bench.fingerprint import digest, fingerprint
from eqsat.bench.log import Log
from eqsat.checking.random_graphs import PROFILES, Profile, random_graph
from eqsat.checking.random_graphs.profiles import REFUSED
from eqsat.checking.shrink import shrink
from eqsat.device.commands import Convolution
from eqsat.device.compile import compile_binary
from eqsat.device.errors import DeviceError
from eqsat.device.ethos_u85 import commands as ethos_u85
from eqsat.device.run import Device
from eqsat.device.verification import Verdict, verify
from eqsat.target import Target
from eqsat.target.families import U85
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa.flatbuffer import TosaError, dumps, loads
from eqsat.tosa.reference import run_samples
from eqsat.versions import commit
from eqsat.workers.worker import Pool, WorkerError

Record = dict[str, Any]
VELA = version("ethos-u-vela")
_SMALL = replace(PROFILES["network"], fewest=1, most=5, without=REFUSED)
#: Of graphs: a few operators as networks have them, INT8 and INT16, and longer ones.
GRAPHS: dict[str, Profile] = {
    "few operators, INT8": replace(_SMALL, dtypes=("INT8",)),
    "few operators, INT16": replace(_SMALL, dtypes=("INT16",)),
    "as networks, INT8": PROFILES["vela"],
    "as networks, INT16": replace(PROFILES["int16"], without=REFUSED),
    "every operator, INT8": replace(_SMALL, dtypes=("INT8",), without=frozenset()),
    "every operator, INT16": replace(_SMALL, dtypes=("INT16",), without=frozenset()),
}
#: With what only U85 does by itself.
EVERY = ("every operator, INT8", "every operator, INT16")
_SAMPLES, _ZOO_SAMPLES = 6, 4
_CUTS = 80


@cache
def sources() -> str:
    """Of the code that the records depend on."""
    return digest(fingerprint(["eqsat.device", "eqsat.checking.random_graphs", "eqsat.tensor.samples"]))


@cache
def _code() -> Record:
    """The commit, which the records themselves change where they are written into the checkout."""
    return {"commit": commit(), "sources": sources()}


def opened(path: Path, *identity: str) -> Log:
    return Log(path, itemgetter(*identity), lambda r: r.get("sources") == sources())


def outcome(found: Verdict) -> str:
    return {True: "equal", False: "differs", None: "not run"}[found.equal]


def judged(graph: TensorGraph, target: Target, via: Pool) -> Record:
    """Outcome and reason for one graph; of one that differs what it is cut down to."""
    try:
        found = verify(dumps(graph), target, via, _SAMPLES)
    except WorkerError as e:
        return {"outcome": "refused" if e.refused else "failed", "reason": str(e)[:200]}
    record: Record = {"outcome": outcome(found), "reason": found.reason}
    if found.equal is False:
        record["cut"] = shown(shrink(graph, lambda g: _differs(g, target, via), _CUTS))
    return record


def _differs(graph: TensorGraph, target: Target, via: Pool) -> bool:
    try:
        return verify(dumps(graph), target, via, _SAMPLES).equal is False
    except (WorkerError, TosaError):
        return False


def shown(graph: TensorGraph) -> list[str]:
    """Its operators in order, with what they give."""
    live = (graph.nodes[n] for n in graph.live())
    return [f"{n.op} {n.dtype} {list(n.shape)}" for n in live if n.op not in ("input", "const")]


def random_graphs(log: Log, count: int, targets: Sequence[str], profiles: Iterable[str]) -> None:
    with Pool(1) as via:
        for name in targets:
            target = Target.of(name)
            for profile in profiles:
                if profile in EVERY and target.family is not U85:
                    continue
                for seed in range(count):
                    if (VELA, name, profile, seed) in log.records:
                        continue
                    graph = random_graph(seed, GRAPHS[profile])
                    key = {"vela": VELA, "target": name, "profile": profile, "seed": seed, **_code()}
                    operators = sorted({f"{graph.nodes[n].op} {graph.nodes[n].dtype}" for n in graph.live()})
                    log.add({**key, **judged(graph, target, via), "operators": operators})


def networks(log: Log, place: Path, targets: Sequence[str]) -> None:
    """The saved networks that are for one of the targets."""
    with Pool(1) as via:
        for path in sorted(place.glob("*.tosa")):
            name = next((t for t in targets if f".{t}." in path.name), None)
            if name is None or (VELA, path.name) in log.records:
                continue
            try:
                record = _network(path.read_bytes(), Target.of(name), via)
            except DeviceError as e:
                record = {"outcome": "not run", "reason": str(e)[:200]}
            except WorkerError as e:
                record = {"outcome": "failed", "reason": f"{type(e).__name__}: {e}"[:200]}
            log.add({"vela": VELA, "file": path.name, "target": name, **_code(), **record})


def _network(buffer: bytes, target: Target, via: Pool) -> Record:
    """In this process, for the seconds."""
    drawn = samples(domains(loads(buffer, "the network")), _ZOO_SAMPLES, 0)
    answers = run_samples(buffer, drawn, via)
    expected = [a for a in answers if not isinstance(a, WorkerError)]
    inputs = [x for x, a in zip(drawn, answers, strict=True) if not isinstance(a, WorkerError)]
    device = Device(compile_binary(buffer, target, via))
    started = time.perf_counter()
    got = device.run([np.stack(x) for x in zip(*inputs, strict=True)])
    seconds = time.perf_counter() - started
    wants = [np.stack(w) for w in zip(*expected, strict=True)]
    same = [np.array_equal(y.view(w.dtype).reshape(w.shape), w) for y, w in zip(got, wants, strict=True)]
    macs = sum(_macs(c) for c in device.commands if isinstance(c, Convolution | ethos_u85.Convolution))
    return {
        "outcome": "equal" if all(same) else "differs",
        "reason": "" if all(same) else f"output {same.index(False)} differs",
        "samples": len(inputs),
        "seconds": round(seconds, 3),
        "commands": len(device.commands),
        "macs": macs,
    }


def _macs(c: Convolution | ethos_u85.Convolution) -> int:
    if isinstance(c, Convolution):
        elements = c.output.map.height * c.output.map.width * c.output.map.depth
    else:
        elements = math.prod(c.output.shape)
    return elements * c.kernel.height * c.kernel.width * (1 if c.depthwise else c.ifm.depth)


def summary(graphs: Iterable[Record], zoo: Iterable[Record]) -> str:
    """Tables in Markdown."""
    kinds = ("equal", "differs", "not run", "refused", "failed")
    lines = [
        "# Binaries on the functional model",
        "",
        "## Random graphs",
        "",
        f"| Vela | target | profile | {' | '.join(kinds)} |",
    ]
    lines.append("|---|---|---|" + "---|" * len(kinds))
    counts: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    cuts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    operators: defaultdict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for r in graphs:
        counts[r["vela"], r["target"], r["profile"]][r["outcome"]] += 1
        for o in r["operators"]:
            operators[o][r["outcome"]] += 1
        if r["outcome"] == "differs":
            cuts[", ".join(" ".join(o.split(" ")[:2]) for o in r["cut"])][r["vela"]] += 1
        if r["outcome"] == "not run":
            reasons[r["reason"].rpartition(": ")[2]] += 1
    lines += [
        f"| {' | '.join(key)} | " + " | ".join(str(c[k]) for k in kinds) + " |" for key, c in sorted(counts.items())
    ]
    lines += ["", "## What differs, cut down", "", "| operators | by version of Vela |", "|---|---|"]
    most = sorted(cuts.items(), key=lambda item: -item[1].total())
    lines += [
        f"| {what or 'nothing left'} | {', '.join(f'{v}: {n}' for v, n in sorted(c.items()))} |" for what, c in most
    ]
    lines += ["", "## What is not run", "", *(f"* {n} of {reason}" for reason, n in reasons.most_common())]
    lines += ["", "## By operator and dtype", "", "| operator | equal | differs | not run |", "|---|---|---|---|"]
    lines += [f"| {o} | {c['equal']} | {c['differs']} | {c['not run']} |" for o, c in sorted(operators.items())]
    lines += [
        "",
        "## Networks",
        "",
        "| Vela | network | outcome | commands | MACs | s per sample | MMAC/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in sorted(zoo, key=itemgetter("vela", "file")):
        rate = [r["macs"], r["seconds"] / r["samples"]] if "macs" in r else []
        figures = (
            [f"{r['commands']:,}", f"{rate[0]:,}", f"{rate[1]:.2f}", f"{rate[0] / rate[1] / 1e6:,.0f}"]
            if rate
            else [""] * 4
        )
        how = ": ".join(filter(None, (r["outcome"], r["reason"])))
        lines.append(f"| {r['vela']} | {r['file'].removesuffix('.tosa')} | {how} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=0, help="of each profile, for each target")
    parser.add_argument("--profiles", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--zoo", type=Path, help="directory with saved networks")
    parser.add_argument(
        "--targets", nargs="+", default=["ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256"]
    )
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = opened(arguments.out / "records.jsonl", "vela", "target", "profile", "seed")
    random_graphs(log, arguments.graphs, arguments.targets, arguments.profiles)
    zoo = opened(arguments.out / "zoo.jsonl", "vela", "file")
    if arguments.zoo:
        networks(zoo, arguments.zoo, arguments.targets)
    (arguments.out / "summary.md").write_text(summary(log.records.values(), zoo.records.values()))


if __name__ == "__main__":
    main()
