"""Small things that are read: certificates of proofs, inputs of a run, remembered answers, a project's defaults,
streams of weights."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from eqsat.ground.files import InputError
from eqsat.tosa import dumps
from tests.device.graphs import PIECES, of
from tests.fuzzing.mutate import BLIND, mutated
from tests.fuzzing.outcome import Finding, error_class


def write_certificates(place: Path) -> None:
    """Of two files in a directory beside those of the readers."""
    from eqsat.proof import prove
    from eqsat.proof.certificate import certificate

    (place / "files").mkdir()
    graph = of(*PIECES[1:4])
    data = dumps(graph)
    files = place / "files" / "a.tosa", place / "files" / "b.tosa"
    for file in files:
        file.write_bytes(data)
    written = certificate(prove(graph, graph), files, (data, data), place.parent / "reader" / "c.json", {"eqsat": "0"})
    (place / "c.json").write_text(json.dumps(written, indent=1))


def read_certificate(data: bytes, place: Path) -> str:
    from eqsat.cli.prove import _paths

    (place / "c.json").write_bytes(data)
    try:
        _paths(None, None, place / "c.json")
    except InputError as e:
        if len(str(e)) > 2000 + len(str(place)):
            raise Finding(f"an error of {len(str(e))} characters") from e
        return error_class(e)
    return "accepted"


def write_inputs(place: Path) -> None:
    np.savez_compressed(
        place / "x.npz", x0=np.arange(300, dtype=np.int8).reshape(3, 100), x1=np.zeros((2, 5), np.int32)
    )


def read_inputs(data: bytes, _: Path) -> str:
    from eqsat.ground.packed import UnpackError, unpack_arrays

    try:
        unpack_arrays(data)
    except UnpackError as e:
        return error_class(e)
    return "accepted"


def write_answers(place: Path) -> None:
    from eqsat.search.answer_store import KnownAnswer

    graph = dumps(of(PIECES[2]))
    (place / "a").write_bytes(KnownAnswer("eqsat", "", 7, 8, 9, ("--optimise=Size",), graph, "[1,2]", 10).packed())
    (place / "b").write_bytes(KnownAnswer("stock", "stock", 7, 8, 9, (), b"").packed())


def damage_answers(r: random.Random, corpus: Sequence[bytes]) -> tuple[bytes, str]:
    """What is packed; one time in four the packed bytes. The store's own checksum is right."""
    if r.randrange(4) == 0:
        return mutated(r, corpus, BLIND)
    content, how = mutated(r, [zlib.decompress(data) for data in corpus], BLIND)
    return zlib.compress(content, 1), how


def read_answers(data: bytes, place: Path) -> str:
    from eqsat.search.answer_store import AnswerStore
    from eqsat.store.store import ANSWERS, Store

    file = place / "store.sqlite"
    with closing(Store(file)) as store:
        store.put(ANSWERS, {"0a/0b": data})
    found = AnswerStore(file).entries("0a")
    if found and not all(isinstance(s, str) for a in found.values() for s in (a.chosen, a.given, *a.settings)):
        raise Finding("an answer of another form")
    return "accepted" if found else "dropped"


def write_defaults(place: Path) -> None:
    (place / "p.toml").write_text(
        '[project]\nname = "p"\n\n[tool.eqsat]\ntarget = "ethos-u85-256"\nmax-sram = "512K"\neffort = 1\n'
        'user-rules = ["a.py"]\n\n[tool.other]\nx = {a = 1.5, b = [1, 2]}\n'
    )


def read_defaults(data: bytes, place: Path) -> str:
    from eqsat.cli.defaults import _table

    (place / "pyproject.toml").write_bytes(data)
    try:
        _table(place / "pyproject.toml")
    except InputError as e:
        return error_class(e)
    return "accepted"


def write_weights(place: Path) -> None:
    from ethosu import mlw_codec

    rng = np.random.default_rng(0)
    for k, width in enumerate((0.3, 5, 40, 100)):
        values = np.round(rng.normal(0, width, 600)).clip(-255, 255).astype(int).tolist()
        (place / f"{k}").write_bytes(bytes(mlw_codec.encode(values)))


def read_weights(data: bytes, _: Path) -> str:
    from eqsat.device.core.errors import DeviceError
    from eqsat.device.core.weight_stream import decoded

    try:
        found = decoded(data)
    except DeviceError as e:
        return error_class(e)
    if len(found) > 64 * 8 * max(1, len(data)):
        raise Finding(f"{len(found)} weights in {len(data)} bytes")
    return "accepted"
