"""Explains, operator by operator, why the chosen graph equals the source graph.

    explanation = explain(result)  # or a saved run
    print(explanation.text())
    print(explanation.op_text(57))  # the chain of rules for node 57, with shapes

The saturation is repeated and every step is recorded, which takes a few times as long. A proof is a chain of instances
of named rules between the e-node of the source and the chosen e-node. The e-nodes that an instance assumes are proved,
too, from earlier steps only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache, partial
from typing import Any

from eqsat.egraph.rule import Rule
from eqsat.explain.record import FOREVER, ExplainError, Link, Proof, Record, record, type_text
from eqsat.explain.text import detail, overview
from eqsat.explain.verdicts import VERDICTS, Removal, Verdict, Verdicts, path, removal
from eqsat.search.origins import of_buffer
from eqsat.search.result import Result, Run
from eqsat.tosa.locations import Origins

__all__ = ["ExplainError", "Explanation", "Removal", "Verdict", "explain"]


def explain(what: Run | Result, rules: Sequence[Rule] = ()) -> Explanation:
    """Returns the explanation of a run, or of a result's run.

    rules: the user's own rules that took part.
    Raises ExplainError, and InputError for a result without a run.
    """
    run = what if isinstance(what, Run) else what.run_or_error()
    return Explanation(run, record(run, rules))


class Explanation:
    """The verdicts on every operator of the source (`ops`), and the new operators (`added`)."""

    def __init__(self, run: Run, record: Record):
        self.run, self.record = run, record
        #: PyTorch operators behind the source's operators, if the explicit graph has locations.
        self.origins: dict[int, Origins] = of_buffer(run.graphs["explicit"])
        self._verdicts = Verdicts(run, record, self.origins)
        self.ops: dict[int, Verdict] = self._verdicts.all()
        self.added = self._verdicts.list_added()
        self._removal, self._path = cache(partial(removal, run)), cache(partial(path, run))

    def op(self, node: int) -> Verdict:
        """Returns the verdict on a node of the source. Raises ExplainError for one that is no operator."""
        if node not in self.ops:
            known = 0 <= node < len(self.run.source.nodes)
            raise ExplainError(
                f"n{node} is {'an input or a constant' if known else 'no node of the source graph'}; operators are "
                f"n{min(self.ops, default=0)} to n{max(self.ops, default=0)}"
            )
        return self.ops[node]

    def position(self, node: int) -> int:
        """Returns the class of a node in the run's choice graph."""
        return self._verdicts.position[self.run.choices.frozen.handle[node]]

    def removal(self, node: int) -> Removal:
        """Returns the cost of the graph without an operator that stayed. Raises ExplainError if it did not stay."""
        if self.op(node).verdict != "stayed":
            raise ExplainError(f"n{node} did not stay: it was {self.op(node).verdict}")
        return self._removal(self.position(node))

    def alternatives(self, node: int) -> list[dict[str, Any]]:
        """Returns the candidates for a node's value, by cycles: operator, operands, own cycles, whether chosen."""
        return sorted(self._verdicts.alternatives(node), key=lambda a: a["cycles"])

    def path_cycles(self, enode: int) -> float | None:
        """Returns the additional cycles of the graph with a candidate, by the run's prices; None if it cannot be used.

        enode: the candidate's number, `enode` of `alternatives`.
        """
        return self._path(enode)

    # -- text -------------------------------------------------------------------------------------

    def text(self, removals: bool = True) -> str:
        """Returns a summary, and a line per operator of the source.

        removals: whether lines of operators that stayed tell the cost of the graph without them.
        """
        return overview(self, removals)

    def op_text(self, node: int) -> str:
        """Returns the verdict, the proof, and the alternatives with cycles of one operator."""
        return detail(self, node)

    def proof_lines(self, proof: Proof) -> list[tuple[str, str]]:
        """Returns the lines of a proof as (term, why it equals the one before); the first one states the equation."""

        def term(link: Link, is_left: bool) -> str:
            i = link.instance
            if is_left:
                return text(i.left, link.time, i.seen)
            return name(i.right.cls, link.time) if i.is_operand else text(i.right, link.time + 1, i.made)

        name, text = self.record.name, self.record.text
        said = text(proof.start, 0)
        lines = [(f"{name(proof.start.cls, 0)} = {said}", "")]
        for link, _ in proof.links:
            start = term(link, not link.backwards)
            if said != start:
                lines.append((start, "(operands written out)"))
            said = term(link, link.backwards)
            lines.append((said, link.instance.rule + (" (read backwards)" if link.backwards else "")))
        last = text(proof.end, FOREVER)
        if last != said and "(" in said:
            lines.append((last, "(operands named)"))
        return lines

    def proof_type(self, proof: Proof) -> str:
        return type_text(self.record.type_of(proof.start.cls))

    # -- data -------------------------------------------------------------------------------------

    def as_dict(self, removals: bool = True) -> dict[str, Any]:
        """Returns the whole explanation as a JSON object."""
        return {
            "run": self.run.name,
            "target": self.run.target.accelerator,
            "chosen": self.run.chosen,
            "counts": {v: sum(o.verdict == v for o in self.ops.values()) for v in VERDICTS},
            "ops": [self.op_dict(n, removals, paths=False) for n in self.ops],
            "added": [{**a._asdict(), "origins": [o.record() for o in a.origins]} for a in self.added],
        }

    def op_dict(self, node: int, removals: bool = True, paths: bool = True) -> dict[str, Any]:
        """Returns the explanation of an operator as a JSON object. paths: with path costs, an extraction each."""
        v = self.op(node)
        out = {
            **{f.name: getattr(v, f.name) for f in fields(v)},
            "origins": [o.record() for o in self.origins.get(node, ())],
            "rules": v.rules,
            "alternatives": [
                {
                    **a,
                    "cycles": a["cycles"] if a["cycles"] < float("inf") else None,
                    **({"path_cycles": self.path_cycles(a["enode"])} if paths else {}),
                }
                for a in self.alternatives(node)
            ],
            "proofs": [
                {"type": self.proof_type(p), "lines": [list(line) for line in self.proof_lines(p)]}
                for q in v.proofs
                for p in q.proofs()
                if p.links
            ],
        }
        if removals and v.verdict == "stayed":
            r = self.removal(node)
            out["removal"] = {"extra": r.extra, "instead": list(r.instead)}
        return out
