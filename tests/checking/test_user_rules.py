"""Rules of a user's own: found, checked, blamed with a counterexample, used."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from eqsat import runs
from eqsat.checking import user_rules
from eqsat.ground.files import InputError, PluginError
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tosa import dumps, loads
from tests.command import ROOT, install, run
from tests.term import Term, graph, inputs, outputs

EXAMPLE = str(ROOT / "examples" / "custom_rule.py")
HEAD = """from eqsat import extern, kinds, rule, symbols
f, g, m = symbols("f", kinds.Unary), symbols("g", kinds.Unary), symbols("m", kinds.Move)
x, y = symbols("x y", kinds.Value)
"""
DROPS = HEAD + 'RULES = [rule("drop-inner", f(g(x)), f(x))]\n'
NEVER = HEAD + 'RULES = [rule("never", f(g(x)), x, where=never(f))]\n'
NEVER = HEAD + "@extern\ndef never(f: kinds.Unary) -> bool:\n    return False\n" + NEVER.removeprefix(HEAD)
TYPES = HEAD + 'RULES = [rule("wrong-type", m(x), x)]\n'


def reversed_twice() -> TensorGraph:
    return graph("x:INT8[1,8,8,16]", lambda x: x.relu(-100).reverse(3).relu(-90).reverse(3).relu(-80))


def written(tmp_path: Path, text: str) -> str:
    (tmp_path / "own.py").write_text(text)
    return str(tmp_path / "own.py")


@pytest.mark.slow
def test_the_example_is_sound_and_fires() -> None:
    done = run("check-rules", EXAMPLE, "--graphs", 8, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["unsound"] == {} and record["matches"]["reverse-unary"] > 0
    pack = user_rules.find(EXAMPLE)
    report = user_rules.examine(pack, 0, [reversed_twice()])
    assert report.unused == [] and report.unsound == {} and report.graphs == 4


@pytest.mark.slow
def test_the_example_improves_a_graph(tmp_path: Path) -> None:
    pack = user_rules.load(EXAMPLE, graphs=8)
    options = Options(effort=1, cache=tmp_path / "p", rules=pack.rules)
    result = optimize_tosa(dumps(reversed_twice()), Target.of("ethos-u85-256"), options=options)
    assert result.verified and "reverse" not in loads(result.tosa).op_counts()
    assert result.cycles < result.explicit_cycles
    runs.save(result, tmp_path / "run")
    explanation = run("explain", tmp_path / "run", "--user-rules", EXAMPLE)
    assert explanation.exit_code == 0 and "reverse-reverse" in explanation.stdout
    missing = run("explain", tmp_path / "run")
    assert missing.exit_code == 2 and "reverse-reverse" in missing.stderr.replace("\n", " ")


@pytest.mark.slow
def test_an_unsound_rule_has_a_small_counterexample(tmp_path: Path) -> None:
    done = run("check-rules", written(tmp_path, DROPS), "--graphs", 12)
    assert done.exit_code == 1
    assert "UNSOUND" in done.stdout and "counterexample to drop-inner" in done.stdout
    assert re.search(r"drop-inner: [1-9]\d* matches in", done.stdout)
    with pytest.raises(user_rules.UnsoundRules, match="drop-inner.* on the graph n0 = input x"):
        user_rules.load(str(tmp_path / "own.py"), graphs=12)
    given = (tmp_path / "none.tosa", "-t", "ethos-u85-256", "-o", tmp_path / "out.tosa")
    refused = run("optimize", *given, "--user-rules", tmp_path / "own.py")
    assert refused.exit_code == 2 and "unsound" in refused.stderr


def test_the_match_that_refuted_a_rule_counts_and_is_told(tmp_path: Path) -> None:
    report = user_rules.examine(user_rules.find(written(tmp_path, TYPES)), 12)
    ((name, said),) = report.unsound.items()
    assert report.matches[name] > 0 and said.startswith("its two sides differ in shape or dtype, on the graph n0 = in")
    done = run("check-rules", tmp_path / "own.py", "--graphs", 12)
    assert done.exit_code == 1 and f"{name}: {report.matches[name]} matches in" in done.stdout


def test_a_graph_on_which_eqsat_fails_is_no_verdict_on_rules(tmp_path: Path) -> None:
    """The graph, the operator and the cause are named."""
    (x,) = inputs("x:INT8[2,3]")
    x = x.relu()
    negated = Term(x.g, x.g.add_copy(Node("negate", (x.n,), (), (2, 3), "INT8"), [x.n]))
    g = outputs(negated.relu())
    pack = user_rules.find(written(tmp_path, NEVER))
    with pytest.raises(InputError, match=r"^given graph 1: eqsat itself fails on it, .*KeyError: 'out_zp', at ") as e:
        user_rules.examine(pack, 0, [g])
    assert "= negate(n1) INT8 [2,3]" in str(e.value) and str(e.value).count("clamp") == 1


def test_what_eqsat_cannot_do_with_a_rules_result_is_no_verdict_either(tmp_path: Path) -> None:
    made = HEAD + (
        "from eqsat.egraph.kinds import Call\n"
        "c = symbols('c', kinds.Clamp)\n"
        "@extern\ndef bare(f: kinds.Clamp) -> kinds.Unary:\n    return Call('negate', ())\n"
        "RULES = [rule('bare', c(x), bare(c)(x))]\n"
    )
    g = graph("x:INT8[2,3]", lambda x: x.relu().relu())
    with pytest.raises(InputError, match="^given graph 1: eqsat itself fails on what the rules make of it, .*KeyError"):
        user_rules.examine(user_rules.find(written(tmp_path, made)), 0, [g])


def test_a_function_of_the_users_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    place = written(tmp_path, NEVER.replace("return False", "return 1 / 0"))
    with pytest.raises(PluginError, match=r"the function 'never' failed at .*own.py:6: ZeroDivisionError: division"):
        user_rules.load(place, graphs=4)
    graphs = "def wrong():\n    from eqsat.tensor.graph import TensorGraph\n    TensorGraph().add('negate', [])\nGRAPHS = [wrong]\n"
    with pytest.raises(PluginError, match=r"one of GRAPHS failed at .*own.py:\d+: GraphError: negate takes the attrib"):
        user_rules.find(written(tmp_path, NEVER + graphs))
    done = run("check-rules", tmp_path / "own.py")
    assert done.exit_code == 2 and "UNSOUND" not in done.output


def test_a_rule_that_never_fires_is_not_called_sound(tmp_path: Path) -> None:
    done = run("check-rules", written(tmp_path, NEVER), "--graphs", 4)
    assert done.exit_code == 5 and "not exercised" in done.stdout and "GRAPHS" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RULES = 1 / 0", "ZeroDivisionError"),
        ("", "has no RULES"),
        ("RULES = ['x']", "has no RULES"),
        (DROPS.replace("drop-inner", "move-move"), "names that eqsat has: move-move"),
        (DROPS + "RULES *= 2", "several rules of one name: drop-inner"),
        (HEAD + "RULES = [\n)", r"SyntaxError: .*own.py, line 5"),
        (HEAD + "RULES = [rule('a', f(x), h(x))]", "own.py, line 4: NameError: name 'h'"),
        (HEAD + "RULES = [rule('a', f(x), g(x))]", "own.py:4: the rule 'a' cannot be: g is on no left side"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        user_rules.find(written(tmp_path, text))
    done = run("check-rules", tmp_path / "own.py")
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1 and done.stderr.count("line 4") < 2
    assert done.stderr.count("own.py:4") + done.stderr.count("own.py, line 4") == (":4" in words or "line 4" in words)
    with pytest.raises(InputError, match="does not exist"):
        user_rules.find(str(tmp_path / "nothing.py"))


def test_one_name_of_a_file(tmp_path: Path) -> None:
    place = written(tmp_path, HEAD + "ONE = rule('one', f(g(x)), g(f(x)))\nTWO = [ONE]\n")
    for name in ("ONE", "TWO"):
        assert [r.name for r in user_rules.find(f"{place}:{name}").rules] == ["one"]
    for name, words in (("THREE", "has no 'THREE'"), ("f", "has no RULES")):
        with pytest.raises(InputError, match=words):
            user_rules.find(f"{place}:{name}")


def test_names_of_functions_and_variables_are_free(tmp_path: Path) -> None:
    """A function may be called as a variable, a fact of ours or a word of egglog."""
    text = HEAD + (
        "from eqsat import fact\n"
        "q, union = symbols('q', kinds.Unary), symbols('union', kinds.Unary)\n"
        "def same(f: kinds.Unary, g: kinds.Unary) -> bool:\n    return f == g and f.op == 'clamp'\n"
        "def named(name):\n    same.__name__ = name\n    return extern(same)\n"
        "RULES = [rule(n, q(union(x)), q(x), where=named(n)(q, union)) for n in ('q', 'x', 'curve', 'type', 'Move', 'vec')]\n"
    )
    g = graph("x:INT8[2,3]", lambda x: x.relu().relu(-128))
    report = user_rules.examine(user_rules.find(written(tmp_path, text)), 0, [g])
    assert report.unsound == {} and all(report.matches.values()), report


def test_an_entry_point_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an installed package would offer it; it takes part only where it is named."""
    (tmp_path / "reversal_rules.py").write_text(Path(EXAMPLE).read_text())
    install(tmp_path, "eqsat.rules", "reversals = reversal_rules")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "reversals" in user_rules.available()
    assert [r.name for r in user_rules.find("reversals").rules] == ["reverse-reverse", "reverse-unary"]
    assert Options().rules == ()
    sys.modules.pop("reversal_rules", None)
