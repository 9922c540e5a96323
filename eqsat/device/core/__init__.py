"""What the families share: instructions, registers, operands, memory, and the arithmetic of accumulators."""
