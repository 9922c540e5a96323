"""Fuzzing of everything that reads a file: whatever the bytes are, they are read or refused with a named error.

    python -m tests.fuzzing --inputs 7600 --seed 1 --out benchmarks/results/fuzz

`corpus` makes small valid files, `mutate` damages them, `formats` reads the results, each input in a process with
limits on time and memory (`reading`), so that a crash or a hang is seen and recorded. An input is made again from
(format, seed, number) alone.
"""
