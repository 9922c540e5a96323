"""The common parts of all families: instructions, registers, operands, memory and accumulators."""
