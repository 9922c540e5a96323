"""Proves that two graphs are equal for every input, without knowing how either graph was made."""

from eqsat.proof.counterexample import Counterexample
from eqsat.proof.prove import DIFFERENT, PROVED, UNDECIDED, Open, Proof, Prover, SignatureError, prove

__all__ = ["DIFFERENT", "PROVED", "UNDECIDED", "Counterexample", "Open", "Proof", "Prover", "SignatureError", "prove"]
