"""Drills: harm that is done for real to a running command, and what comes of it."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
import torch

from eqsat.executorch import pt2
from eqsat.executorch.loading import quantize
from eqsat.ground.files import InputError
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tosa import dumps, loads
from tests.command import ROOT
from tests.graphs import transposes

pytestmark = pytest.mark.slow

TARGET = "ethos-u85-256"
_TOKEN = "EQSAT_DRILL"


class Command:
    """A command of ours under way, whose descendants can be found wherever they went."""

    def __init__(self, *args: object, env: Mapping[str, str] | None = None) -> None:
        self.token = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eqsat.cli", *map(str, args)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {}), _TOKEN: self.token},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self) -> tuple[int, str, str]:
        """Returns (exit code, stdout, stderr) and leaves no process behind."""
        out, err = self.process.communicate(timeout=200)
        deadline = time.monotonic() + 10
        while (left := [p for p in psutil.process_iter() if self._is_ours(p)]) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == []
        return self.process.returncode, out, err

    def _is_ours(self, p: psutil.Process) -> bool:
        try:
            return p.environ().get(_TOKEN) == self.token and p.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            return False


def optimize(place: Path, out: Path, env: Mapping[str, str] | None = None) -> Command:
    source = place / "in.tosa"
    source.write_bytes(dumps(transposes()))
    given = {"EQSAT_CACHE": str(place / "cache"), **(env or {})}
    return Command("optimize", source, "-t", TARGET, "-o", out, "--json", env=given)


def is_one_line(err: str) -> bool:
    return "error:" in err and "Traceback" not in err


@contextlib.contextmanager
def killing(module: str) -> Iterator[list[int]]:
    """Within it, the first worker of a module is killed as soon as it is there; the list has it."""
    killed, end = list[int](), threading.Event()

    def kill() -> None:
        while not killed and not end.wait(0.05):
            for p in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if not killed and any(word.startswith(module) for word in p.cmdline()[1:]):
                        p.kill()
                        killed.append(p.pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        end.set()
        thread.join()


def test_a_corrupted_store_changes_no_result(tmp_path: Path) -> None:
    first, second = tmp_path / "a.tosa", tmp_path / "b.tosa"
    assert optimize(tmp_path, first).finish()[0] == 0
    store = tmp_path / "cache" / "store.sqlite"
    content = store.read_bytes()
    store.write_bytes(content[:16] + b"noise" * (len(content) // 5))
    assert optimize(tmp_path, second).finish()[0] == 0
    assert first.read_bytes() == second.read_bytes()


def test_without_vela_the_remedy_is_told(tmp_path: Path) -> None:
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(
        "import sys\n"
        "class _Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'ethosu':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, _Refuse())\n"
    )
    env = {"PYTHONPATH": f"{tmp_path / 'blocked'}:{ROOT}"}
    code, _, err = optimize(tmp_path, tmp_path / "out", env=env).finish()
    assert code == 3 and is_one_line(err) and "pip install ethos-u-vela" in err and not (tmp_path / "out").exists()


def test_workers_of_vela_that_are_killed_change_no_result(tmp_path: Path) -> None:
    def run(cache: str) -> bytes:
        options = Options(time_limit=2, cache=tmp_path / cache)
        return optimize_tosa(dumps(transposes()), Target.of(TARGET), options=options).tosa

    calm = run("calm")
    with killing("eqsat.ground.worker") as killed:
        assert run("killed") == calm
    assert len(killed) == 1


@pytest.mark.parametrize(("times", "code"), [(1, 0), (2, 130)])
def test_ctrl_c(times: int, code: int, tmp_path: Path) -> None:
    """The first ends the search with the best so far, the second the command."""
    out = tmp_path / "out"
    (tmp_path / "sitecustomize.py").write_text(
        "import contextlib, os, sys, threading, time\n"
        "stderr = os.dup(2)\n"  # which a command at work keeps others from
        "def told():\n"
        "    os.write(stderr, b'STAGE\\n')\n"
        "    time.sleep(3)\n"
        "def watch():\n"
        "    while 'eqsat.search.clock' not in sys.modules or not hasattr(sys.modules['eqsat.search.clock'], 'Clock'):\n"
        "        time.sleep(0.01)\n"
        "    Clock = sys.modules['eqsat.search.clock'].Clock\n"
        "    original = Clock.stage\n"
        "    @contextlib.contextmanager\n"
        "    def stage(self, name):\n"
        "        with original(self, name):\n"
        "            told() if name == 'extract' else None\n"
        "            yield\n"
        "    Clock.stage = stage\n"
        "if 'optimize' in sys.orig_argv:\n"
        "    threading.Thread(target=watch, daemon=True).start()\n"
    )
    command = optimize(tmp_path, out, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert command.process.stderr is not None
    for line in command.process.stderr:
        if line.startswith("STAGE"):
            break
    for _ in range(times):
        os.killpg(command.process.pid, signal.SIGINT)
        time.sleep(0.5)
    ended, printed, err = command.finish()
    assert ended % 256 in (code, -signal.SIGINT % 256 if code else 0) and "Traceback" not in err
    assert out.exists() == (code == 0)
    if code == 0:
        result = json.loads(printed)
        loads(out.read_bytes())
        assert result["interrupted"] and result["verified"] and result["cycles"]["eqsat"] <= result["cycles"]["stock"]


class _Harm:
    """Runs a shell command when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.trace}",)


def test_code_in_a_saved_program_never_runs(tmp_path: Path) -> None:
    """It is in the sample inputs, a constant, the target of a node, a shape or a library."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    module = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.ReLU())
    program = quantize(module, (torch.randn(1, 2, 4, 4),), EthosUCompileSpec("ethos-u55-128"))
    torch.export.save(program, str(tmp_path / "small.pt2"))
    assert len(pt2.load(tmp_path / "small.pt2").graph.nodes) > 3
    trace, harm = tmp_path / "trace", tmp_path / "harm.pt"
    torch.save(_Harm(trace), harm)
    tensor = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    size = {"as_expr": {"expr_str": f"__import__('os').system('touch {trace}')", "hint": None}}
    model, config = "models/model.json", "data/constants/model_constants_config.json"
    with zipfile.ZipFile(tmp_path / "small.pt2") as source:
        root = source.namelist()[0].partition("/")[0]
        files = {name.partition("/")[2]: source.read(name) for name in source.namelist()}
    constants = json.dumps({"config": {"x": tensor}}).encode()
    for changed in (
        {"data/sample_inputs/model.pt": harm.read_bytes()},
        {config: constants, "data/constants/opaque_obj_0": pickle.dumps(_Harm(trace))},
        {model: files[model].replace(b"torch.ops.aten.relu.default", b"torch.os.system")},
        {model: files[model].replace(b'{"as_int": 3}', json.dumps(size).encode())},
        {"data/aotinductor/model/model.so": b"\x7fELF"},
    ):
        assert any(files.get(name) != data for name, data in changed.items())
        with zipfile.ZipFile(tmp_path / "changed.pt2", "w") as target:
            for name, data in {**files, **changed}.items():
                target.writestr(f"{root}/{name}", data)
        with pytest.raises(InputError, match=".pt2"):
            pt2.load(tmp_path / "changed.pt2")
        assert not trace.exists()


# ---- nothing that is read can run -----------------------------------------------------------------

#: Modules that make objects or code of bytes, and calls that do so.
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "yaml", "code", "codeop"}
CALLS = {"eval", "exec", "compile"}
#: Calls that may do so without an argument.
PICKLELESS = ("allow_pickle", "False")
SAFELY = {"torch.load": ("weights_only", "True"), "np.load": PICKLELESS, "numpy.load": PICKLELESS}


def harmful(tree: ast.AST) -> Iterator[str]:
    """Yields what a module does that could run what it reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name.split(".")[0] for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            given = {k.arg: ast.unparse(k.value) for k in node.keywords}
            if name in CALLS or name == "torch.export.load":
                yield name
            elif name in SAFELY and given.get(SAFELY[name][0]) != SAFELY[name][1]:
                yield f"{name} that may unpickle"


def test_nothing_is_unpickled_or_evaluated() -> None:
    files = [f for room in ("eqsat", "extraction", "cost_models") for f in (ROOT / room).rglob("*.py")]
    assert {f: bad for f in files if (bad := set(harmful(ast.parse(f.read_text()))))} == {}
    text = "import pickle\nnp.load(f)\ntorch.load(f, weights_only=False)\neval('1')\nmodel.eval()\nre.compile('x')\n"
    found = ["eval", "np.load that may unpickle", "pickle", "torch.load that may unpickle"]
    assert sorted(harmful(ast.parse(text))) == found
