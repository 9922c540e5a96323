"""The documents: the site builds, blocks of code run and print what their page says, quoted messages are ours."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
from sphinx.cmd import build

from docs import blocks, generate, pictures
from eqsat import runs
from eqsat.ground.registry import load
from eqsat.target import Target
from eqsat.tosa import loads

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WITH_CODE = [p for p in blocks.pages() if blocks.blocks(p)]


@pytest.mark.parametrize(
    "page", WITH_CODE, ids=lambda p: p.stem if p.parent == ROOT / "docs" else f"{p.parent.name}-{p.stem}"
)
def test_every_block_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    blocks.check(page, tmp_path)


#: Packages whose `__all__` is what users may rely on.
PUBLIC = (
    *("eqsat", "eqsat.tosa", "eqsat.target", "eqsat.runs", "eqsat.explain", "eqsat.bench", "eqsat.report"),
    *("extraction", "cost_models"),
)


@pytest.mark.parametrize("package", PUBLIC)
def test_the_reference_has_every_public_name_and_an_example_of_every_type(package: str) -> None:
    page, module = ROOT / "docs" / "reference.md", import_module(package)
    directives = re.findall(r"^\.\. auto\w+:: ([\w.]+)$", page.read_text(), re.M)
    documented = [getattr(import_module(m), n) for m, _, n in (d.rpartition(".") for d in directives)]
    code = "\n".join(b.code for b in blocks.blocks(page) if b.language == "python")
    public = {n: getattr(module, n) for n in module.__all__}
    types = [n for n, v in public.items() if inspect.isclass(v)]
    named = [n for n, v in public.items() if inspect.isclass(v) or inspect.isfunction(v)]
    assert [n for n in named if public[n] not in documented] == []
    assert [n for n in types if not re.search(rf"\b{n}\b", code)] == []


def test_blocks_that_are_not_run_are_few_and_say_why() -> None:
    skipped = [b.code for p in WITH_CODE for b in blocks.blocks(p) if b.code.startswith(blocks.NOT_RUN)]
    assert len(skipped) <= 4 and all(len(code.splitlines()[0]) > len(blocks.NOT_RUN) for code in skipped)


def test_a_block_that_fails_or_prints_something_else_is_found(tmp_path: Path) -> None:
    for i, (text, words) in enumerate(
        [
            ("```python\n1 / 0\n```\n", "page.md:2: ZeroDivisionError"),
            ("\n```bash\nexit 3\n```\n", "page.md:3: exit code 3"),
            ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page.md:6: the page says\n2\n\nbut it prints\n1"),
            ("```perl\n1\n```\n", "page.md:2: no block of the language 'perl'"),
        ]
    ):
        (tmp_path / str(i)).mkdir()
        page = tmp_path / "page.md"
        page.write_text(text)
        with pytest.raises(blocks.BlockError, match=re.escape(words)):
            blocks.check(page, tmp_path / str(i))


@pytest.mark.filterwarnings("ignore:.*is deprecated. Check CHANGES for Sphinx API")
def test_the_site_builds_without_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process, which has imported what the reference shows."""
    failed = build.main(["-W", "--keep-going", "-q", str(ROOT / "docs"), str(tmp_path / "site")])
    assert not failed, capsys.readouterr().err
    rules = (tmp_path / "site" / "rules.html").read_text()
    assert "move-move" in rules and "fuse-tosa-transposes" in rules
    for page in (tmp_path / "site").rglob("*.html"):
        assert "generated: " not in page.read_text(), f"{page.name} has a part that was not generated"


def test_generated_parts_are_as_the_code_makes_them() -> None:
    """`python -m docs.generate` writes them anew."""
    pages = {p: p.read_text() for p in (ROOT / "docs").rglob("*.md")}
    assert sum("<!-- end -->" in text for text in pages.values()) >= 6
    assert [p.name for p, text in pages.items() if generate.renew(text) != text] == []


def test_an_unknown_generated_part_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        generate.fill("<!-- generated: nothing -->\n")


def test_every_recorded_table_is_on_a_page() -> None:
    pages = "\n".join(p.read_text() for p in blocks.pages())
    parts = re.findall(r"^<!-- generated: (results of .+) -->$", pages, re.M)
    shown = "".join(generate.PARTS[p]() for p in parts)
    for table in (ROOT / "benchmarks").glob("**/results/**/*.md"):
        assert f"From `{table.relative_to(ROOT)}`." in shown


def test_every_quoted_message_is_in_the_sources() -> None:
    sources = "\n".join(p.read_text() for d in ("eqsat", "extraction", "cost_models") for p in (ROOT / d).rglob("*.py"))
    quoted = [
        m
        for row in re.findall(r"^\|([^|]*`[^|]*)\|", (ROOT / "docs/troubleshooting.md").read_text(), re.M)
        for m in re.findall(r"`(.+?)`", row)
    ]
    assert len(quoted) > 50
    assert [m for m in quoted if m not in sources] == []


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> runs.Run:
    from eqsat.search.optimizer import optimize_tosa

    result = optimize_tosa(pictures.EXAMPLE.read_bytes(), Target.of(pictures.TARGET), name=pictures.EXAMPLE.name)
    assert result.run
    return result.run


def test_the_pictures_are_those_of_a_run(example: runs.Run) -> None:
    made = pictures.pictures(example)
    assert sorted(p.name for p in pictures.DIRECTORY.iterdir()) == sorted(made)
    for name, text in made.items():
        assert (pictures.DIRECTORY / name).read_text() == text, f"{name} is another one now: python -m docs.pictures"


def test_the_export_script_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    load(str(ROOT / "examples" / "export.py")).main()
    assert all(b"EthosUBackend" in (tmp_path / name).read_bytes() for name in ("stock.pte", "eqsat.pte"))


def test_the_tosa_file_is_what_its_script_makes() -> None:
    made = load(str(ROOT / "examples" / "make_tosa.py")).tosa()
    assert made == pictures.EXAMPLE.read_bytes()
    assert "transpose" in loads(made).op_counts()


def test_the_readme_is_short_and_has_the_figures_of_its_record() -> None:
    readme = (ROOT / "README.md").read_bytes()
    assert len(readme) < 5 * 1024
    report = (ROOT / "benchmarks/results/calibrated/report/report.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")] for line in report.splitlines() if line.startswith("| ethos-u")]
    for configuration in ("stock-best", "eqsat"):
        to_stock = [row[4] for row in rows if row[2] == configuration]
        assert len(to_stock) == 3 and f"| {' | '.join(to_stock)} |".encode() in readme
