"""The outcome of an optimization: its state at the end, from which the result is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.egraph.encoding import Frozen
from eqsat.options.decision import Figures
from eqsat.search.figures import GraphFigures
from eqsat.search.given import Given
from eqsat.search.loop import Loop
from eqsat.search.origins import table, with_locations
from eqsat.search.recall import Memory
from eqsat.search.result import Point, Result
from eqsat.search.run import Run
from eqsat.search.state import State
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.roofline import bound, over_bound
from eqsat.verification.checks import Answer, Checks
from eqsat.verification.equality import Attempt
from eqsat.verification.verification import first_equal, pareto_set, tell, verify_offers


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is known at the end of an optimization.

    name: of the graph.
    reference: the explicit graph as it was read.
    exact: the e-graph, None if there is none.
    state: the state with all graphs that were compared.
    how: "remembered" or "respelled" if the answer is that of an earlier search, else "".
    interrupted: whether the search was ended early.
    made_of: {node of the e-graph's source: node of the reference} if they differ, else None.
    nearest: the figures of the graph that exceeds the limits least, None if the answer fits.
    """

    name: str
    loop: Loop
    checks: Checks
    reference: TensorGraph
    given: Given
    exact: Frozen | None
    state: State
    how: str
    interrupted: bool
    answer: Answer
    made_of: Mapping[int, int] | None = None
    nearest: Figures | None = None

    def verified(self) -> Outcome:
        """Returns the outcome with the best graph of all as its answer.

        Limits that nothing fits do not end a search, but then the answer is the best one within the default limits.
        """
        answer, nearest, checks, decision = self.answer, self.nearest, self.checks, self.state.decision
        with self.loop.clock.stage("verify"):
            graphs = self.state.graphs
            answer = first_equal(graphs, checks, decision) or answer
            if not decision.limits.widest.fits(answer.best.figures):
                nearest = answer.best.figures
                answer = first_equal(graphs, checks, replace(decision, limits=decision.default)) or answer
            verify_offers(graphs, answer, checks, decision)
            tell(answer, graphs, checks, decision, nearest)
        return replace(self, answer=answer, nearest=nearest)

    def result(self, memory: Memory | None) -> Result:
        """Returns the result, which is remembered unless it was or is not worth it.

        What waits for nothing is computed while the answer's binary is proved.
        """
        loop, answer, best, frozen = self.loop, self.answer, self.answer.best, self.exact
        checks, given, counts = self.checks, self.given, self.reference.op_counts()
        stock = given.compiled.get("stock")
        names = dict.fromkeys(o.attr("tosa").lower() for o in self.reference.nodes if o.op == "opaque")
        opaque = {name: counts.get(name, 0) for name in names}
        with loop.clock.stage("verify"):
            proof_of_binary, figures, points = checks.binaries.begin_proof(best), self._figures(), self._points()
            located = with_locations(best, given.buffers["explicit"], self.made_of)
            run, lower_bound = self._run(located, points), bound(self.reference, best.estimate.rates)
            rows = table(located, over_bound(best.estimate.rows, best.tosa, best.estimate.rates))
            stock_verified, stock_proved, stock_binary = checks.stock(given.stock)
            if memory and not (self.how == "remembered" or self.interrupted or self.nearest):
                memory.keep(answer, located, frozen, self.state.graphs, proof_of_binary)
            of_binary = proof_of_binary.result()
        if stock_verified is False:  # such a graph is no peer
            stock, figures["stock"] = None, GraphFigures()
        no_e_graph = "interrupted" if self.interrupted else "remembered" if self.how else "failed"
        of_stock = of_binary if best is stock else Attempt(False)
        return Result(
            tosa=located,
            explicit=given.buffers["explicit"],
            chosen=best.name,
            figures=figures,
            verified=answer.verified,
            stock_verified=stock_verified,
            proved=answer.proof.proved,
            undecided=list(answer.proof.undecided),
            error_bound=answer.proof.error_bound,
            stock_proved=stock_proved,
            settings=best.settings,
            binary_verified=answer.binary.equal,
            binary_reason=answer.binary.reason,
            binary_samples=answer.binary.samples,
            binary_proved=of_binary.proved or None,
            binary_undecided=list(of_binary.undecided),
            stock_binary_verified=stock_binary.equal if stock_binary else None,
            stock_binary_proved=of_stock.proved or None,
            stock_binary_undecided=list(of_stock.undecided),
            bound=lower_bound,
            coverage=1 - sum(opaque.values()) / max(1, sum(counts.values())),
            opaque=opaque,
            e_nodes=frozen.n_nodes if frozen else 0,
            stop=frozen.saturation.stop if frozen else no_e_graph,
            candidates=len(self.state.graphs),
            searched=bool(self.how or self.state.extracted),
            remembered=self.how == "remembered",
            respelled=self.how == "respelled",
            interrupted=self.interrupted,
            extractions=loop.extractions,
            limits=self.state.decision.limits,
            nearest=self.nearest,
            points=points,
            table=[r.record() for r in rows],
            seconds=loop.clock.seconds,
            warnings=loop.warnings,
            raw=best.estimate.raw,
            known=run,
        )

    def _figures(self) -> dict[str, GraphFigures]:
        """Returns the figures of "stock", of "explicit" and of the chosen graph ("eqsat")."""
        known = {**self.given.compiled, "eqsat": self.answer.best}
        target = self.state.target
        figures = {name: GraphFigures.of(c.estimate, target) for name, c in known.items()}
        return {name: figures.get(name, GraphFigures()) for name in ("stock", "explicit", "eqsat")}

    def _points(self) -> list[Point]:
        """Returns the Pareto set of candidates that are not known to differ from the reference."""
        limits, checks = self.state.decision.limits.widest, self.checks
        possible = pareto_set(self.state.graphs, checks)
        return [
            Point(c.name, c.figures, limits.fits(c.figures), checks.verified(c), c.tosa, c.settings) for c in possible
        ]

    def _run(self, located: bytes, points: Sequence[Point]) -> Run | None:
        """Returns the run around the chosen candidate or, if it lost, the best extracted one; None without any."""
        best, state, given = self.answer.best, self.state, self.given
        found = [c for c in state.graphs if c.choices is not None and not (c.settings or c.parts_of)]
        if self.how or not found:
            return None
        # it may have other settings, or more operators than were chosen
        same = [c for c in found if c.tosa == best.tosa] or [c for c in found if c.choice is best.choice]
        kept = same[0] if same else min(found, key=state.decision.rank_of)
        assert kept.choices is not None, "it was extracted"
        forbidden = kept.choices.graph.forbidden
        return Run(
            self.name,
            state.target,
            {**given.buffers, "chosen": located, **{f"point-{i}": p.tosa for i, p in enumerate(points)}},
            best.given or best.name,
            replace(state.priced, graph=replace(state.priced.graph, forbidden=forbidden)),
            kept.choice,
            [r.name for r in state.options.identities(state.target)],
            state.options.record(),
            tables={
                c.name: over_bound(c.estimate.rows, c.tosa, c.estimate.rates) for c in (*given.compiled.values(), kept)
            },
        )
