"""Truncated and foreign files, targets that refuse, tools that are not there."""

from __future__ import annotations

import json
from pathlib import Path

from eqsat.egraph.attributes import Call
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Clamp, Unary, Value
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import let, symbols
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Type, attrs_of
from eqsat.tosa import TosaError, dumps, loads
from tests.drills import ROOT, TARGET, CommandProcess, DrillOutcome, clear_error, drill, eqsat, message
from tests.drills.workers import steps_back
from tests.fuzzing.corpus import finish
from tests.fuzzing.formats import FORMATS, transposes
from tests.planted import DROPPED

MODEL = f"{ROOT / 'benchmarks/models/pixel_shuffle.py'}:model"


def _refused(
    place: Path, *args: object, code: int = 2, words: tuple[str, ...] = (), env: dict[str, str] | None = None
) -> DrillOutcome:
    """A command that must end with an exit code and one line of error that has the words; nothing is written."""
    out = place / "out.bin"
    process = eqsat(*args, "-o", out, env={"EQSAT_CACHE": str(place / "cache"), **(env or {})}).start()
    got, _, err = process.finish()
    missing = [w for w in words if w not in " ".join(err.split())]
    well = got == code and clear_error(err) and not missing and not out.exists() and not process.survivors(5)
    return well, f"exit code {got}: {message(err)}"


@drill(
    "truncated .tosa", "a file is cut at every 16th byte", "TosaError at every length, and exit code 2 of the command"
)
def truncated_tosa(place: Path) -> DrillOutcome:
    whole, refused, read = dumps(transposes()), 0, []
    for end in range(0, len(whole), 16):
        try:
            loads(whole[:end])
            read.append(end)
        except TosaError:
            refused += 1
    (place / "cut.tosa").write_bytes(whole[: len(whole) // 2])
    passed, observed = _refused(place, "optimize", place / "cut.tosa", "-t", TARGET, words=("cut.tosa",))
    return passed and not read, f"{refused} of {refused + len(read)} lengths refused; {observed}"


@drill("truncated .pt2", "a saved program is cut in half", "exit code 2 and a line that names the file and the remedy")
def truncated_pt2(place: Path) -> DrillOutcome:
    FORMATS["pt2"].prepare(place)
    whole = (place / "small.pt2").read_bytes()
    (place / "cut.pt2").write_bytes(whole[: len(whole) // 2])
    return _refused(place, "compile", place / "cut.pt2", "-t", TARGET, words=("cut.pt2", "save it again"))


@drill(
    "truncated bench record",
    "the last line of records.jsonl is cut in the middle, and bytes that are no text stand behind it",
    "the run's other cells are reported; the same command measures the lost one again",
)
def truncated_record(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    bench = [
        "bench",
        "--models",
        place / "in.tosa",
        "--targets",
        TARGET,
        "-c",
        "stock-without-layout-passes",
        "-c",
        "eqsat",
        "--out",
        place / "run",
    ]
    first, _, _err = eqsat(*bench, env={"EQSAT_CACHE": str(place)}).start().finish()
    path = place / "run" / "records.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(lines[0] + b"\n" + lines[1][:40] + b"\xff\xfe\0")
    report, _, _report_err = eqsat("report", place / "run").start().finish()
    again, _, _err = eqsat(*bench, env={"EQSAT_CACHE": str(place)}).start().finish()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    whole = len(records) == 2 and not any("error" in r for r in records)
    return whole and (first, report, again) == (
        0,
        0,
        0,
    ), f"exit codes {first}, {report} (report), {again} (again); {len(records)} records after it"


@drill(
    "a target that refuses the graph",
    "an addition of floats, which no Ethos-U has",
    "exit code 3 and Vela's reason; nothing written",
)
def refused_by_target(place: Path) -> DrillOutcome:
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 4, 8), "FP32")
    finish(g, g.add("add", (x, x)))
    (place / "in.tosa").write_bytes(dumps(g))
    return _refused(
        place,
        "optimize",
        place / "in.tosa",
        "-t",
        "ethos-u55-128",
        code=3,
        words=("cannot be compiled for ethos-u55-128", "nothing was written"),
    )


@drill(
    "an identity that does not hold",
    "a user's rule drops clamps",
    "the candidate is dropped with a warning; the result is sound",
)
def wrong_identity(place: Path) -> DrillOutcome:
    return steps_back(place, rules=(DROPPED,))


@drill(
    "an identity for the wrong target",
    "a user's rule takes a clamp's values through floats, which no Ethos-U has",
    "the candidate is dropped with a warning; the result is sound",
)
def wrong_target(place: Path) -> DrillOutcome:
    @extern
    def casts(f: Clamp, t: Type) -> tuple[Unary, Unary]:
        return Call("cast", attrs_of({"dtype": "FP32"})), Call("cast", attrs_of({"dtype": t.dtype}))

    f, x = symbols("f", Clamp), symbols("x", Value)
    through_floats = rule("through-floats", f(x), let(casts(f, x), lambda a, b: b(a(x))), removes=True)
    return steps_back(place, rules=(through_floats,))


_BLOCK = """import sys
class _Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, _Refuse())
"""


def without(place: Path, *names: str) -> dict[str, str]:
    """An environment in which packages cannot be imported, nor by worker processes."""
    (place / "blocked").mkdir()
    (place / "blocked" / "sitecustomize.py").write_text(_BLOCK.format(names=set(names)))
    return {"PYTHONPATH": f"{place / 'blocked'}:{ROOT}"}


@drill("no Vela installed, .tosa", "ethosu cannot be imported", "one line of error with the remedy; nothing written")
def no_vela(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    return _refused(
        place,
        "optimize",
        place / "in.tosa",
        "-t",
        TARGET,
        code=3,
        words=("pip install", "vela"),
        env=without(place, "ethosu"),
    )


@drill(
    "no Vela installed, model",
    "ethosu cannot be imported while a model is compiled",
    "one line of error with the remedy; nothing written",
)
def no_vela_model(place: Path) -> DrillOutcome:
    return _refused(
        place, "compile", MODEL, "-t", TARGET, code=3, words=("ethos-u-vela", "install"), env=without(place, "ethosu")
    )


@drill(
    "no reference model installed",
    "tosa_reference_model cannot be imported",
    "what cannot be verified is not used: the graph as it was, and a warning",
)
def no_reference(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    process = eqsat(
        "optimize",
        place / "in.tosa",
        "-t",
        TARGET,
        "-o",
        place / "out.tosa",
        "--json",
        env={"EQSAT_CACHE": str(place), **without(place, "tosa_reference_model")},
    ).start()
    code, stdout, err = process.finish()
    record = json.loads(stdout) if code == 0 else {}
    well = code == 0 and record["chosen"] == "explicit" and "pip install" in " ".join(record["warnings"])
    return (
        well,
        f"exit code {code}: {record['chosen'] + ', ' + record['warnings'][0][:200] if record else message(err)}",
    )


@drill(
    "code in a .pt2",
    "the sample inputs, a constant, a node's target, a shape or a library in a saved program hold code",
    "all are refused, and none of the code runs",
)
def code_in_pt2(place: Path) -> DrillOutcome:
    process = CommandProcess(["-m", "tests.drills.harmful", place]).start()
    code, stdout, err = process.finish()
    return code == 0, stdout.strip() or message(err)
