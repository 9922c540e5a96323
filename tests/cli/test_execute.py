"""`eqsat exec` and `EQSAT_LOG`: a script that knows nothing of eqsat, and what is said while it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eqsat.executorch.logs import LEVELS, speak
from eqsat.ground.files import InputError
from tests.command import python, run

LOWERS = """
import sys
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.exir import to_edge_transform_and_lower
from eqsat.executorch.quantize import quantize
from tests.cli.upscale import model

spec = EthosUCompileSpec(sys.argv[1])
edge = to_edge_transform_and_lower(quantize(*model(), spec), partitioner=[EthosUPartitioner(spec)])
print(len(edge.to_executorch().buffer))
"""


def test_a_script_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = python("-m", "eqsat.cli", "exec", "none.py", cwd=tmp_path)
    assert done.returncode == 2 and "none.py does not exist" in done.stderr


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, for commands that run in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    return tmp_path


@pytest.mark.slow
def test_a_script_has_its_arguments_and_its_folder(here: Path) -> None:
    (here / "beside.py").write_text("WORD = 'beside'")
    (here / "s.py").write_text("import sys, beside\nprint(beside.WORD, *sys.argv[1:])\nsys.exit(7)")
    done = run("exec", "--effort", "1", "s.py", "--effort", "x")
    assert done.stdout == "beside --effort x\n" and done.exit_code == 7
    of_module = run("exec", "-m", "s", "y")
    assert of_module.stdout == "beside y\n" and of_module.exit_code == 7


@pytest.mark.slow
def test_a_script_that_fails_is_told_as_python_tells_it(here: Path) -> None:
    (here / "s.py").write_text("def f():\n    return 1 / 0\n\nf()")
    done = run("exec", "s.py")
    assert done.exit_code == 1 and "eqsat/cli" not in done.stderr
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero") and "line 2, in f" in done.stderr


@pytest.mark.slow
def test_delegates_are_told_a_line_each(here: Path) -> None:
    (here / "lowers.py").write_text(LOWERS)
    done = run("exec", "--effort", "1", "lowers.py", "ethos-u85-256")
    told = [line for line in done.stderr.splitlines() if line.startswith("eqsat: ")]
    assert len(told) == 1 and "cycles (-" in told[0] and "bit-exact, proved" in told[0]
    assert int(done.stdout.split()[-1]) > 0


@pytest.mark.parametrize("asked", LEVELS)
def test_what_eqsat_says_can_be_chosen(asked: str) -> None:
    code = (
        "import logging; from eqsat.executorch.logs import *; speak(); results.info('told'); "
        "logging.getLogger('eqsat.x').info('done'); logging.getLogger('eqsat.x').debug('tried')"
    )
    done = python("-c", code, env={"EQSAT_LOG": asked})
    expected = {"off": [], "result": ["told"], "info": ["told", "done"], "debug": ["told", "done", "tried"]}
    assert [line.split()[-1] for line in done.stderr.splitlines()] == expected[asked] and not done.stdout


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_record_is_shown_once_where_the_root_logger_shows_records_too(elsewhere: bool, tmp_path: Path) -> None:
    """ExecuTorch's Arm backend gives the root logger a handler; one that writes to a file keeps its records."""
    code = """import logging, sys
from eqsat.executorch.logs import speak
logging.basicConfig(**{"filename": name for name in sys.argv[1:]})
speak()
logging.getLogger("eqsat.search").info("done")"""
    file = tmp_path / "log"
    done = python("-c", code, *[file] * elsewhere, env={"EQSAT_LOG": "info"})
    assert done.stderr.count("done") == 1 and done.returncode == 0
    assert not elsewhere or file.read_text().count("done") == 1


def test_another_word_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_LOG", "loud")
    with pytest.raises(InputError, match="EQSAT_LOG is 'loud': it may be off, result, info, debug"):
        speak()
