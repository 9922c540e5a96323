"""`eqsat prove`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqsat.cli.common import REFUTED, UNDECIDED, JsonOption, app, console, failures, print_json, quiet
from eqsat.ground.files import InputError, check_outputs, read_bytes, write_atomically
from eqsat.ground.versions import versions

if TYPE_CHECKING:
    from eqsat.proof import Proof

#: Exit codes by verdict.
_CODES = {"proved": 0, "different": REFUTED, "undecided": UNDECIDED}
#: Packages on which a verdict depends, in addition to the files.
_PACKAGES = ("eqsat", "tosa-tools", "numpy")

FileArgument = Annotated[Path | None, typer.Argument(help="a .tosa file (TOSA 1.0 flatbuffer)")]


@app.command("prove")
def prove_command(
    one: FileArgument = None,
    other: FileArgument = None,
    *,
    certificate: Annotated[
        Path | None, typer.Option(help="also write a JSON file that records the verdict, the files and the method")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(help="repeat the proof of this certificate at new random points; give no files then"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="SEED", help="seed of the random point (default: a new seed)")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decide whether two TOSA graphs are equal for every input. The exit code is 0 if they are equal, 1 if an input
    shows that they differ, and 5 if neither is proved."""
    quiet()
    with failures("the graphs could not be compared"):  # 1 would say that they differ
        paths = _paths(one, other, check)
        if certificate is not None:
            check_outputs({"--certificate": certificate}, paths)
        data = read_bytes(paths[0]), read_bytes(paths[1])
        proof = _proof(paths, data, seed)
        if certificate is not None:
            from eqsat.proof.prove import certificate as written

            text = json.dumps(written(proof, paths, data, certificate, versions(_PACKAGES)), indent=1)
            write_atomically(certificate, text.encode() + b"\n")
    if as_json:
        print_json(_as_json(proof))
    else:
        _show(proof, paths)
    raise typer.Exit(_CODES[proof.verdict])


def _paths(one: Path | None, other: Path | None, check: Path | None) -> tuple[Path, Path]:
    """Returns the files to compare. Raises InputError."""
    if check is None:
        if one is None or other is None:
            raise InputError("give two .tosa files, or a certificate with --check")
        return one, other
    if one is not None:
        raise InputError("--check takes its files from the certificate: give none")
    from eqsat.ground.packed import UnpackError, unpack_json
    from eqsat.proof.prove import files_of

    try:
        return files_of(unpack_json(read_bytes(check)), check)
    except UnpackError as e:
        raise InputError(f"{check} is no certificate: it is not JSON") from e


def _proof(paths: tuple[Path, Path], data: tuple[bytes, bytes], seed: int | None) -> Proof:
    """Proves the graphs of two files. Raises InputError."""
    from eqsat.proof import SignatureError, prove
    from eqsat.tosa import loads

    graphs = [loads(d, str(p)) for d, p in zip(data, paths)]
    try:
        return prove(graphs[0], graphs[1], seed=seed)
    except SignatureError as e:
        raise InputError(f"{paths[0]} and {paths[1]} cannot be compared: {e}") from e


def _as_json(proof: Proof) -> dict[str, Any]:
    told = {**asdict(proof), "proved": proof.verdict == "proved"}
    del told["outputs"]
    if proof.counterexample:
        told["counterexample"]["inputs"] = [x.tolist() for x in proof.counterexample.inputs]
    return told


def _show(proof: Proof, paths: tuple[Path, Path]) -> None:
    if proof.verdict == "proved":
        line = f"proved: equal for every input, but for a probability below {proof.error_bound:.1g}"
    elif proof.counterexample:
        line = f"different: {proof.counterexample.text} (the input: --json)"
    else:
        line = "undecided: no proof, and no input on which they differ was found"
    console.say(line)
    if not proof.counterexample:
        for u in proof.undecided:
            console.say(f"  at {u.operator} of {paths[1]}: {u.reason}")
    console.say(f"seconds: {proof.seconds:.1f}")
