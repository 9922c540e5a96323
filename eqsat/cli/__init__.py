"""The command line, a file per command.

Exit codes:
0: done.
1: a run became worse, the graphs of a proof differ, or an executed script failed.
2: bad input.
3: ExecuTorch, Vela or the disk failed.
4: written, but a delegate is stock's because eqsat fell back to it.
5: a user's rule is unsound, or a proof is undecided.
6: a user's rule was never tried.
130: interrupted.
"""
