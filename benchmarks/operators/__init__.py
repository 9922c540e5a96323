"""Shows which operators and blocks of PyTorch stay on the CPU, with stock ExecuTorch and with eqsat.

    python -m benchmarks.operators --out benchmarks/results/operators

Each case (`cases.py`) is a small network quantized to INT8: the operator between two layers, as it stands in a network.
It is lowered for each target by Arm's partitioner and by eqsat's.
Counted are the operators outside the delegates, without the quantize and dequantize around them.

Where eqsat changes nothing in a program, both partitioners do the same, and it is lowered once.

Then the lowered program runs: each delegate by the semantics of its TOSA, the rest by PyTorch.
Of stock it is the TOSA that Vela compiled, of eqsat the one that its search begins with.
The outputs are compared with those of the quantized program, in steps of their quantization.

Takes ten seconds of a processor for each case and target, of which there are 442.
"""
