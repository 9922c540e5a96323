"""The connection to ExecuTorch: lowering, compiling, and optimizing a program before it is lowered."""
