"""Batch normalization in longdouble, as its definition reads."""

import numpy as np

LD = np.longdouble


def channels(x, channel_axis=1):
    """`x` as a longdouble matrix (C, m)."""
    x = np.moveaxis(np.asarray(x).astype(LD), channel_axis, 0)
    return x.reshape(len(x), -1)


def like(rows, x, channel_axis=1):
    """The inverse of `channels`: a matrix (C, m) in the shape of `x`."""
    shape = np.moveaxis(np.asarray(x), channel_axis, 0).shape
    return np.moveaxis(rows.reshape(shape), 0, channel_axis)


def statistics(x, channel_axis=1):
    """Mean and biased variance per channel."""
    rows = channels(x, channel_axis)
    mean = rows.mean(axis=1)
    return mean, np.square(rows - mean[:, None]).mean(axis=1)


def column(vector, n, default):
    return np.full((n, 1), default, LD) if vector is None else np.asarray(vector, LD)[:, None]


def forward(x, weight=None, bias=None, eps=1e-5, channel_axis=1, mean=None, var=None):
    """The output, from the batch's statistics or from given ones."""
    if mean is None:
        mean, var = statistics(x, channel_axis)
    rows = channels(x, channel_axis)
    n = len(rows)
    normalized = (rows - column(mean, n, 0)) / np.sqrt(column(var, n, 1) + LD(eps))
    return like(normalized * column(weight, n, 1) + column(bias, n, 0), x, channel_axis)


def backward(dy, x, weight=None, eps=1e-5, channel_axis=1, mean=None, var=None):
    """``dx, dweight, dbias``; statistics that are given are constants."""
    training = mean is None
    if training:
        mean, var = statistics(x, channel_axis)
    g, rows = channels(dy, channel_axis), channels(x, channel_axis)
    n = len(rows)
    rstd = 1 / np.sqrt(column(var, n, 1) + LD(eps))
    normalized = (rows - column(mean, n, 0)) * rstd
    dweight, dbias = (g * normalized).sum(axis=1), g.sum(axis=1)
    dx = g
    if training:
        dx = g - g.mean(axis=1)[:, None] - normalized * (g * normalized).mean(axis=1)[:, None]
    return like(dx * rstd * column(weight, n, 1), x, channel_axis), dweight, dbias
