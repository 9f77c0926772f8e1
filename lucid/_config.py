"""What an issue report needs to know."""

from __future__ import annotations

import platform
import sys
from typing import Any, Literal, overload

import numpy as np

from ._kernels import provider

__version__ = "0.1.0"


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, Any]: ...
def show_config(mode: str = "stdout") -> dict[str, Any] | None:
    """Show versions, compiler, provider, instruction set, threads and devices.

    Parameters
    ----------
    mode : {"stdout", "dicts"}
        Print, or return a dictionary.

    Returns
    -------
    dict or None
        With ``mode="dicts"``: ``lucid``, ``python``, ``numpy``, ``platform``, ``compiler``;
        ``provider`` and ``isa`` in use, those ``available``, ``entries`` (primitive to the provider
        that serves it), ``threads``, and ``mlx`` (version and device, or None).

    Raises
    ------
    ValueError
        For any other mode.

    Examples
    --------
    >>> import lucid
    >>> config = lucid.show_config(mode="dicts")
    >>> config["provider"] in config["available"]["providers"]
    True
    """
    if mode not in ("stdout", "dicts"):
        raise ValueError(f"show_config: mode must be 'stdout' or 'dicts', got {mode!r}")
    active, isa = provider.active()
    config = {
        "lucid": __version__,
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "platform": platform.platform(),
        "compiler": provider.compiler(),
        "provider": active,
        "isa": isa,
        "available": provider.available(),
        "entries": provider.entries(),
        "threads": provider.num_threads(),
        "mlx": _mlx(),
    }
    if mode == "dicts":
        return config
    for key, value in config.items():
        if isinstance(value, dict):
            print(f"{key}:")
            for k, v in value.items():
                print(f"  {k}: {', '.join(v) if isinstance(v, list) else v}")
        else:
            print(f"{key}: {value}")
    return None


def _mlx() -> str | None:
    """Version and device of MLX, None where it is not installed."""
    from importlib import metadata  # slow to import

    try:
        version = metadata.version("mlx")
        import mlx.core as mx
    except ImportError:
        return None
    return f"{version} on {mx.default_device()}"
