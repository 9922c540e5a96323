"""The connection to ExecuTorch: lowering, compiling, optimizing a program before lowering."""
