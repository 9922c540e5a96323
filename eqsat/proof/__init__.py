"""Equality of two graphs for every input, decided without knowing how they were made."""

from eqsat.proof.counterexample import Counterexample
from eqsat.proof.prove import DIFFERENT, PROVED, UNDECIDED, Open, Proof, Prover, SignatureError, prove

__all__ = ["DIFFERENT", "PROVED", "UNDECIDED", "Counterexample", "Open", "Proof", "Prover", "SignatureError", "prove"]
