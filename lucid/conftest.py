"""Names that the examples in docstrings take for granted."""

import numpy as np
import pytest

import lucid


@pytest.fixture(autouse=True)
def example_names(doctest_namespace):
    """Offer ``np`` and ``lucid``."""
    doctest_namespace.update(np=np, lucid=lucid)
