"""Models that are too large, memory that is too small, lowerings side by side."""

from __future__ import annotations

import json
import resource
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.drills import TARGET, DrillOutcome, clear_error, drill, eqsat, message
from tests.drills.saboteurs import Killer
from tests.fuzzing.corpus import finish
from tests.fuzzing.formats import transposes

if TYPE_CHECKING:
    from eqsat.executorch.session import Session


def chain(nodes: int) -> TensorGraph:
    """Clamps between useless pairs of transposes, `nodes` operators in all."""
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 8, 16), "INT8")
    for k in range(nodes // 4):
        low = -128 + k % 90
        x = g.add("transpose", (x,), perms=(0, 3, 1, 2))
        x = g.add_with("clamp", (x,), makers.clamp("INT8", low))
        x = g.add("transpose", (x,), perms=(0, 2, 3, 1))
        x = g.add_with("clamp", (x,), makers.clamp("INT8", low, 126))
    return finish(g, x)


@drill(
    "a model of 5,000 nodes",
    "1,250 times transpose, clamp, transpose back, clamp",
    "verified and no worse, or stepped back, within 10 minutes",
)
def five_thousand(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(chain(5000)))
    started = time.monotonic()
    process = eqsat(
        "optimize", place / "in.tosa", "-t", TARGET, "-o", place / "out.tosa", "--json", env={"EQSAT_CACHE": str(place)}
    ).start()
    code, stdout, err = process.finish(600)
    seconds = time.monotonic() - started
    if code:
        return False, f"exit code {code}: {message(err)}"
    r = json.loads(stdout)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    well = r["verified"] and r["cycles"]["eqsat"] <= r["cycles"]["stock"] and not process.survivors(5)
    return well, (
        f"{r['chosen']}, {r['cycles']['stock']:,} to {r['cycles']['eqsat']:,} cycles, verified, "
        f"{r['stop']} at {r['e_nodes']:,} e-nodes, "
        f"{seconds:.0f} s, at most {peak:,} MiB{'; warning: ' + r['warnings'][0][:120] if r['warnings'] else ''}"
    )


@drill(
    "memory limit",
    "RLIMIT_AS from 300 MB up to 1 GB",
    "a verified result, or an error; never a half-written file, a hang or a process left",
)
def memory(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    well, said = True, []
    for megabytes in (300, 500, 700, 1000):
        limit = megabytes << 20
        out = place / f"out{megabytes}.tosa"
        process = eqsat(
            "optimize",
            place / "in.tosa",
            "-t",
            TARGET,
            "-o",
            out,
            "--json",
            env={"EQSAT_CACHE": str(place)},
            preexec=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        ).start()
        code, stdout, err = process.finish(60)
        if code == 0:
            ok = json.loads(stdout)["verified"] and out.exists()
            said.append(f"{megabytes} MB: {json.loads(stdout)['chosen']}, verified")
        else:
            ok = clear_error(err) and not out.exists()
            said.append(f"{megabytes} MB: exit code {code}, {message(err)[:120]}")
        well &= ok and not process.survivors(5)
    return well, "; ".join(said)


def _quantized(name: str, target: str):
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from benchmarks.models import load
    from eqsat.executorch.quantize import quantize

    spec = EthosUCompileSpec(target)
    return quantize(*load(name), spec), spec


def _session(program, spec, cache: Path) -> Session:
    """The session of a lowering through the one-line door."""
    from eqsat.executorch.lowering import lower_with_session
    from eqsat.options.options import Options

    return lower_with_session(program, spec, options=Options(cache=cache))[1]


def _lowered(program, spec, cache: Path) -> tuple[list[bytes], int]:
    """(the chosen TOSA of every delegate, delegates that stepped back)."""
    session = _session(program, spec, cache)
    return [r.tosa for r in session.results], session.stepped_back


@drill(
    "concurrent lowerings in threads",
    "two models are lowered at once by two threads, for two targets",
    "both delegates as when lowered alone",
)
def concurrent(place: Path) -> DrillOutcome:
    jobs = [("pixel_shuffle", "ethos-u85-256"), ("gru_cell", "ethos-u55-128")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        programs = [_quantized(*job) for job in jobs]
        alone = [_lowered(*p, place / "prices") for p in programs]
        found: dict[int, tuple[list[bytes], int]] = {}

        def work(i: int) -> None:
            found[i] = _lowered(*programs[i], place / "prices")

        running = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
        for t in running:
            t.start()
        for t in running:
            t.join()
    same = sum(found.get(i) == a for i, a in enumerate(alone))
    return same == len(jobs) and not any(back for _, back in alone), f"{same} of {len(jobs)} equal to those alone"


@drill(
    "Vela dies in a lowering",
    "every Vela worker is killed while a model is lowered",
    "stock ExecuTorch's delegate and a warning; where a worker answered before it was killed, a verified answer",
)
def lowering_without_workers(place: Path) -> DrillOutcome:
    from eqsat.executorch.session import EqsatWarning

    program = _quantized("pixel_shuffle", TARGET)
    with warnings.catch_warnings(record=True) as caught, Killer("eqsat.ground.worker", 1000) as killer:
        warnings.simplefilter("always")
        session = _session(*program, place / "prices")
    said = [str(w.message) for w in caught if issubclass(w.category, EqsatWarning)]
    kept = session.stepped_back == 1 and bool(said) and not session.results
    answered = session.stepped_back == 0 and len(session.results) == 1 and session.results[0].verified is True
    seen = said[0][:200] if said else f"{len(session.results)} answers, no warning"
    return kept or answered, f"{killer.killed} workers killed; {seen}"
