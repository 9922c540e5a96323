"""The FX side: where eqsat taps ExecuTorch's Arm pipeline."""
