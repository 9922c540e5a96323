"""The command line, a file per command. Exit codes: 0 done; 2 bad input; 3 ExecuTorch, Vela or the disk failed; 4
written, but a delegate is stock's because eqsat stepped back; 1 a run became worse; 5 a user's rule is unsound, 6 one
was never tried; 130 interrupted."""
