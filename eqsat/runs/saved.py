"""Runs on disk.

    result = eqsat.optimize_tosa(tosa, target)
    eqsat.runs.save(result, "run")                        # or: eqsat optimize in.tosa ... --save run
    run = eqsat.runs.load("run")                          # what it can do: eqsat/search/run.py

`eqsat/runs/archive.py` describes the directory. Rules are code, so only their names are saved.
"""

from __future__ import annotations

from pathlib import Path

from eqsat.ground.packed import pack_json, unpack_json
from eqsat.runs import codec
from eqsat.runs.archive import ArchiveError, read, write
from eqsat.search.result import Result
from eqsat.search.run import Run
from eqsat.target import Target
from eqsat.tosa.flatbuffer import loads
from eqsat.vela.defects import Copy, remedies
from eqsat.vela.facts import PACKAGE
from eqsat.vela.table import Row


def save(what: Run | Result, place: str | Path) -> None:
    """Writes a run, or a result's run, to a directory, whole or not at all. Raises InputError and OutputError."""
    run = what if isinstance(what, Run) else what.run_or_error()
    info = {
        "name": run.name,
        "target": {"accelerator": run.target.accelerator, "flags": list(run.target.flags)},
        "chosen": run.chosen,
        "choice": sorted(run.choice.items()),
        "rules": list(run.rules),
        "options": run.options,
        "result": run.result,
        "versions": run.versions,
    }
    files = {f"{k}.tosa": v for k, v in run.graphs.items()}
    files["tables.json.gz"] = pack_json({k: [r.record() for r in rows] for k, rows in run.tables.items()})
    write(Path(place), info, {**files, **codec.write(run.choices)})


def load(place: str | Path) -> Run:
    """Returns a saved run. Raises ArchiveError if it is none, or of another version, incomplete or changed."""
    info, files = read(Path(place))
    try:
        graphs = {name.removesuffix(".tosa"): data for name, data in files.items() if name.endswith(".tosa")}
        source = loads(graphs["explicit"], f"{place}/explicit.tosa")
        target = Target(info["target"]["accelerator"], tuple(info["target"]["flags"]))
        run = Run(
            info["name"],
            target,
            graphs,
            info["chosen"],
            codec.read(files, source, remedies(Copy, target.family, info["versions"][PACKAGE])),
            dict(info["choice"]),
            info["rules"],
            info["options"],
            info["result"],
            {k: list(map(Row.read, rows)) for k, rows in unpack_json(files["tables.json.gz"]).items()},
            info["versions"],
        )
        if run.choice:  # a run whose prices were replaced has none
            run.cost()
        return run
    except Exception as e:  # noqa: BLE001 - a damaged file may raise anything, from zlib to numpy
        raise ArchiveError(
            f"{place}: its content does not fit together ({type(e).__name__}: {e}); save it again"
        ) from e
