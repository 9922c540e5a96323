"""Errors and rank correlations of predictions against the truth.

Errors and regret are fractions: 0.01 is one percent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def ranks(x: np.ndarray) -> np.ndarray:
    """Returns ranks from 0; ties share their mean."""
    order, values = np.argsort(x, kind="stable"), np.sort(x)
    _, start, count = np.unique(values, return_index=True, return_counts=True)
    out = np.empty(len(x))
    out[order] = np.repeat(start + (count - 1) / 2, count)
    return out


def spearman(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Returns Spearman's rho, Pearson's correlation of the ranks."""
    a, b = (r - r.mean() for r in (ranks(truth), ranks(predicted)))
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def kendall(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Returns Kendall's tau-b, which accounts for ties."""
    i, j = np.triu_indices(len(truth), 1)
    a, b = np.sign(truth[i] - truth[j]), np.sign(predicted[i] - predicted[j])
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def compare(truth: Sequence[float], predicted: Sequence[float], in_cycles: bool) -> dict:
    """Returns the figures of one cost model on one sample.

    For the errors, predictions that are no cycles are first scaled by the median ratio.
    Rank correlations are None, with a `reason`, if the truth or the predictions are constant.
    regret: how much worse the graph with the lowest prediction is than the best.
    """
    t, p = np.asarray(truth, float), np.asarray(predicted, float)
    scale = 1.0 if in_cycles else float(np.median(t / np.maximum(p, 1e-12)))
    error = np.abs(scale * p - t) / t
    reason = "the truth is constant" if np.ptp(t) == 0 else "the predictions are constant" if np.ptp(p) == 0 else ""
    pick = t[p == p.min()].mean()  # The mean of all graphs that share the lowest prediction.
    return {
        "mape": float(error.mean()),
        "median": float(np.median(error)),
        "p95": float(np.percentile(error, 95)),
        "spearman": None if reason else spearman(t, p),
        "kendall": None if reason else kendall(t, p),
        "regret": float(pick / t.min() - 1),
        "scale": scale,
        **({"reason": reason} if reason else {}),
    }
