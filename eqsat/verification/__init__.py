"""Whether a compiled graph may be the answer: proof, samples, regions, binaries and the deviation of tolerant
graphs."""
