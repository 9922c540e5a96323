"""The outcome of an optimization: its state at the end, from which the result is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Figures
from eqsat.search.candidates import Candidates
from eqsat.search.explored import Explored
from eqsat.search.figures import GraphFigures
from eqsat.search.origins import table, with_locations
from eqsat.search.repairs import graphs
from eqsat.search.result import Point, Result
from eqsat.search.run import Run
from eqsat.vela.roofline import bound, over_bound
from eqsat.verification.checks import Answer
from eqsat.verification.judging import BinaryProof
from eqsat.verification.verification import pareto_set, rank


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is known at the end of an optimization.

    name: of the graph.
    compared: all graphs that were compared.
    found: the explored e-graphs, with the graphs extracted from them.
    interrupted: whether the search was ended early.
    nearest: the figures of the graph that exceeds the limits least, None if the answer fits.
    """

    name: str
    candidates: Candidates
    compared: Sequence[Compiled]
    found: Sequence[Explored]
    interrupted: bool
    answer: Answer
    nearest: Figures | None

    def located(self) -> bytes:
        """Returns the flatbuffer of the answer with the origins of its operators."""
        return with_locations(self.answer.best, self.candidates.given.buffers["explicit"])

    def result(self, located: bytes) -> Result:
        """Returns the result; what waits for nothing is computed while the answer's binary is proved.

        located: as `located` returns it.
        """
        candidates, answer, best = self.candidates, self.answer, self.answer.best
        search, checks, given = candidates.search, candidates.checks, candidates.given
        explicit, stock, frozen = given.compiled.get("explicit"), given.compiled.get("stock"), candidates.exact
        counts = candidates.reference.op_counts()
        names = dict.fromkeys(o.attr("tosa").lower() for o in candidates.reference.nodes if o.op == "opaque")
        opaque = {name: counts.get(name, 0) for name in names}
        with search.clock.stage("verify"):
            proof_of_binary, figures, points = checks.binaries.begin_proof(best), self._figures(), self._points()
            run, lower_bound = self._run(located, points), bound(candidates.reference, best.estimate.rates)
            rows = table(located, over_bound(best.estimate.rows, best.tosa, best.estimate.rates))
            stock_verified, stock_proved, stock_binary = checks.stock(given.stock)
            of_binary = proof_of_binary.result()
        if stock_verified is False:  # such a graph is no peer
            stock, figures["stock"] = None, GraphFigures()
        of_stock = of_binary if best is stock else BinaryProof(None)
        proof = answer.proof
        return Result(
            tosa=located,
            explicit=given.buffers["explicit"],
            chosen=best.name,
            figures=figures,
            verified=answer.verified,
            stock_verified=stock_verified,
            proved=answer.is_proved,
            undecided=[o.text for o in proof.undecided] if proof else [],
            error_bound=proof.error_bound if proof else float(best.name != "explicit"),
            stock_proved=stock_proved,
            settings=best.settings,
            binary_verified=answer.binary.equal,
            binary_reason=answer.binary.reason,
            binary_samples=answer.binary.samples,
            binary_proved=of_binary.proved,
            binary_undecided=list(of_binary.undecided),
            stock_binary_verified=stock_binary.equal if stock_binary else None,
            stock_binary_proved=of_stock.proved,
            stock_binary_undecided=list(of_stock.undecided),
            bound=lower_bound,
            coverage=1 - sum(opaque.values()) / max(1, sum(counts.values())),
            opaque=opaque,
            e_nodes=frozen.n_nodes if frozen else 0,
            stop=frozen.saturation.stop if frozen else self._why_no_e_graph(),
            candidates=len(self.compared),
            searched=candidates.known or bool(graphs(self.found)),
            remembered=candidates.is_remembered,
            respelled=candidates.is_respelled,
            interrupted=self.interrupted,
            extractions=search.extractions,
            limits=candidates.decision.limits,
            nearest=self.nearest,
            points=points,
            table=[r.record() for r in rows],
            seconds=search.clock.seconds,
            warnings=search.warnings,
            raw=best.estimate.raw,
            known=run,
        )

    def _why_no_e_graph(self) -> str:
        return "interrupted" if self.interrupted else "remembered" if self.candidates.known else "failed"

    def _figures(self) -> dict[str, GraphFigures]:
        """Returns the figures of "stock", of "explicit" and of the chosen graph ("eqsat")."""
        known = {**self.candidates.given.compiled, "eqsat": self.answer.best}
        target = self.candidates.search.target
        figures = {name: GraphFigures.of(c.estimate, target) for name, c in known.items()}
        return {name: figures.get(name, GraphFigures()) for name in ("stock", "explicit", "eqsat")}

    def _points(self) -> list[Point]:
        """Returns the Pareto set of candidates that are not known to differ from the reference."""
        limits, checks = self.candidates.decision.limits.widest, self.candidates.checks
        possible = pareto_set(self.compared, checks)
        return [
            Point(c.name, c.figures, limits.fits(c.figures), checks.verified(c), c.tosa, c.settings) for c in possible
        ]

    def _run(self, located: bytes, points: Sequence[Point]) -> Run | None:
        """Returns the run around the chosen candidate or, if it lost, the best extracted one; None without any."""
        best, found, given = self.answer.best, graphs(self.found), self.candidates.given
        search, decision = self.candidates.search, self.candidates.decision
        if not found:
            return None
        # it may have other settings, or no stripes
        same = [c for c in found if c.tosa == best.tosa] or [c for c in found if c.choice is best.choice]
        kept = same[0] if same else min(found, key=lambda c: rank(c, decision))
        home = next(e for e in self.found if kept in e.graphs)
        return Run(
            self.name,
            search.target,
            {**given.buffers, "chosen": located, **{f"point-{i}": p.tosa for i, p in enumerate(points)}},
            best.given or best.name,
            home.choices,
            kept.choice,
            [r.name for r in search.options.identities(search.target)],
            search.options.record(),
            tables={
                c.name: over_bound(c.estimate.rows, c.tosa, c.estimate.rates) for c in (*given.compiled.values(), kept)
            },
        )
