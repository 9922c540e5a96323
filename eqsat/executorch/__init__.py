"""The doors to ExecuTorch: lowering, compiling, optimizing a program before lowering."""
