"""The ranking of compiled graphs: by Vela's corrected total or by their command streams.

The price of the command streams is reported as a second opinion if it does not decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cost_models.command_stream import StreamPrice, price
from eqsat.device.core.errors import DeviceError
from eqsat.options.options import COMMAND_STREAM, OptionError, Options
from eqsat.target import Target
from eqsat.vela.compile import Estimate

__all__ = ["Referee", "StreamPrice", "disagreement", "total"]


def total(prices: Iterable[StreamPrice | None]) -> StreamPrice | None:
    """Returns the price of all delegates together, or None if one of them is unknown."""
    every = list(prices)
    known = [p for p in every if p is not None]
    return StreamPrice.together(known) if known and len(known) == len(every) else None


@dataclass(frozen=True, slots=True)
class Referee:
    """The ranking of one optimization."""

    target: Target
    options: Options

    def price(self, estimate: Estimate) -> StreamPrice | None:
        """Returns the price of a compiled graph's command stream, or None if it is unknown."""
        try:
            return self._price(estimate)
        except DeviceError:
            return None

    def decisive(self, estimate: Estimate) -> StreamPrice | None:
        """Returns the price by which a compiled graph ranks; None if Vela's corrected total does.

        Raises OptionError if its commands are unknown.
        """
        if self.options.referee != COMMAND_STREAM:
            return None
        try:
            return self._price(estimate)
        except DeviceError as e:
            raise OptionError(f"the referee {COMMAND_STREAM} cannot price a graph: {e}") from e

    def _price(self, estimate: Estimate) -> StreamPrice:
        """Returns the price of a compiled graph's command stream. Raises DeviceError."""
        return price(estimate.stream, self.target, self.options.command_cycles)


def disagreement(cycles: tuple[int, int], prices: tuple[StreamPrice | None, StreamPrice | None]) -> str:
    """Returns a warning if Vela's corrected total falls and the stream's price rises, else "".

    cycles, prices: (before, after).
    """
    before, after = prices
    if before is None or after is None or cycles[1] >= cycles[0] or after.cycles <= before.cycles:
        return ""
    return (
        f"Vela's corrected total falls from {cycles[0]:,} to {cycles[1]:,} cycles, but the price of the command stream rises from {before.cycles:,} to "
        f"{after.cycles:,} ({before.commands:,} to {after.commands:,} commands): measure both, or try --referee {COMMAND_STREAM}"
    )
