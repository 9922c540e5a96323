"""Configurations, models and keys."""

import importlib
import sys

import pytest

from eqsat.bench import cells
from eqsat.bench.cells import Configuration, Model
from eqsat.checking import user_rules
from eqsat.ground.files import InputError
from eqsat.target import Target, TargetError
from eqsat.target.accelerators import parse_target
from tests.command import ROOT, install


def test_configurations_by_name():
    c = Configuration.parse("eqsat:extractor=dag_greedy,preset=none,time-limit=2")
    assert Configuration.parse(c.name) == c
    options = c.optimizer_options()
    assert (options.extractor, options.preset, options.time_limit) == ("dag_greedy", "none", 2.0)
    assert Configuration.parse("stock").name == "stock"
    memory = Configuration.parse("eqsat:max-sram=65536,max-flash=any,objective=sram").optimizer_options()
    assert (memory.max_sram, memory.max_flash, memory.objective) == ("65536", "any", "sram")


def test_plugins_of_a_configuration_are_found_by_the_same_names_and_are_part_of_its_key(here, monkeypatch):
    monkeypatch.setattr(user_rules, "load", user_rules.find)  # unchecked, as what is tested is how they are found
    (here / "costs.py").write_text("from cost_models.op_count import OpCount as Mine\n")
    (here / "mine.py").write_text("from extraction.dag_greedy import extract\n")
    (here / "own_rules.py").write_text((ROOT / "examples" / "custom_rule.py").read_text())
    c = Configuration.parse("eqsat:cost-model=costs.py:Mine,extractor=mine:extract,user-rules=own_rules.py:RULES")
    options = c.optimizer_options()
    assert (options.cost_model, options.extractor) == ("costs.py:Mine", "mine:extract")
    assert [r.name for r in options.rules] == ["reverse-reverse", "reverse-unary"]
    keys = c.plugins()
    assert len(keys) == 3 and Configuration.parse("eqsat:preset=none,extractor=asp").plugins() == []
    (here / "costs.py").write_text("from cost_models.analytic import Analytic as Mine\n")
    assert [a == b for a, b in zip(keys, c.plugins(), strict=True)] == [False, True, True]


@pytest.mark.parametrize(
    "text, word",
    [
        ("fast", "stock-without-layout-passes"),
        ("stock:preset=none", "stock"),
        ("eqsat:presets=none", "preset"),
        ("eqsat:preset=nope", "nope"),
        ("eqsat:rounds=many", "number"),
        ("eqsat:remember=no", "no option of eqsat is called 'remember'"),
        ("eqsat:max-sram=much", "max_sram is 'much': give a number of bytes"),
        ("eqsat:extractor=diligent", "no extractor is called 'diligent'"),
        ("eqsat:user-rules=absent.py", "absent.py does not exist"),
    ],
)
def test_a_wrong_configuration_names_what_there_is(text, word):
    with pytest.raises(InputError, match=word):
        Configuration.parse(text)


def test_a_target_may_name_its_memory_mode():
    assert parse_target("ethos-u85-256") == Target.of("ethos-u85-256")
    assert parse_target("ethos-u85-256@Shared_Sram") == Target.of("ethos-u85-256", memory_mode="Shared_Sram")
    for name, word in (
        ("ethos-u99@Shared_Sram", "ethos-u99"),
        ("ethos-u85-256@Share_Sram", "did you mean Shared_Sram"),
    ):
        with pytest.raises(TargetError, match=word):
            parse_target(name)


def test_models_by_path_module_and_name(tmp_path):
    (tmp_path / "a.b.tosa").write_bytes(b"x")
    (tmp_path / "mine.py").write_text("")
    assert Model.find(str(tmp_path / "a.b.tosa")).name == "a-b"
    assert Model.find(f"{tmp_path}/mine.py:make").name == "mine-make"
    assert Model.find("benchmarks.models.emg:model") == Model("emg", "benchmarks.models.emg:model") == Model.find("emg")
    with pytest.raises(InputError, match="does not exist"):
        Model.find("absent.pt2")


def test_an_unknown_model_names_the_remedies(monkeypatch, tmp_path):
    with pytest.raises(InputError, match="the zoo has ds_cnn.*entry point"):
        Model.find("nope")
    monkeypatch.chdir(tmp_path)
    cells.model_sets.cache_clear()
    with pytest.raises(InputError, match="in a clone of the repository only"):
        Model.find("emg")
    monkeypatch.undo()
    cells.model_sets.cache_clear()


def test_another_package_brings_a_model(tmp_path, monkeypatch):
    (tmp_path / "their_models.py").write_text("def make(): ...\n")
    install(tmp_path, "eqsat.models", "wakeword = their_models:make")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    model = Model.find("wakeword")
    assert model == Model("wakeword", "their_models:make")
    first = model.fingerprint()
    (tmp_path / "their_models.py").write_text("def make(): return 1\n")
    assert model.fingerprint() != first


def test_a_change_of_these_sources_or_of_a_package_is_measured_anew(monkeypatch):
    first = cells.sources()
    assert cells.sources() == first
    for name, value in (("code", lambda: "other sources"), ("versions", lambda packages: {"torch": "3.0"})):
        with monkeypatch.context() as changed:
            changed.setattr(cells, name, value)
            assert cells.sources() != first


def test_a_project_declares_its_own_zoo(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.eqsat]\nmodels = "their_zoo"\n')
    monkeypatch.chdir(tmp_path)
    cells.model_sets.cache_clear()
    with pytest.raises(InputError, match="their_zoo"):
        cells.model_sets()
    (tmp_path / "their_zoo").mkdir()
    (tmp_path / "their_zoo" / "__init__.py").write_text('ZOO = ("wakeword",)\n')
    (tmp_path / "their_zoo" / "wakeword.py").write_text("def model(): ...\n")
    importlib.invalidate_caches()
    assert Model.find("wakeword") == Model("wakeword", "their_zoo.wakeword:model")
    first = Model.find("wakeword").fingerprint()
    (tmp_path / "their_zoo" / "__init__.py").write_text('ZOO = ("another", "wakeword")\n')
    assert Model.find("wakeword").fingerprint() == first
    (tmp_path / "their_zoo" / "inner").mkdir()
    for place in ("_blocks.py", "inner/_blocks.py"):  # a model may import them
        before = Model.find("wakeword").fingerprint()
        (tmp_path / "their_zoo" / place).write_text("def block(): ...\n")
        assert Model.find("wakeword").fingerprint() != before
    assert cells.model_sets() == {"zoo": ("wakeword",)}
    (tmp_path / "their_zoo" / "__init__.py").write_text('ZOO = ("another",)\nDEPLOYED = ("wakeword",)\n')
    monkeypatch.delitem(sys.modules, "their_zoo")
    importlib.invalidate_caches()
    cells.model_sets.cache_clear()
    assert cells.model_sets() == {"zoo": ("another",), "deployed": ("wakeword",)}
    assert Model.find("wakeword") == Model("wakeword", "their_zoo.wakeword:model")
    monkeypatch.undo()
    cells.model_sets.cache_clear()
