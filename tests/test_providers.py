"""Providers: which there are, how one is chosen, and that it does the work it is said to do."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import lucid
from lucid._kernels import provider as table

PROVIDERS = table.available()["providers"]
OTHERS = [p for p in PROVIDERS if p != "simd"]
SERVED = {"sum_rows", "sum_cols", "moments_rows", "moments_cols", "channel_sums", "channel_affine"}
MORE = {"accelerate": {"rsqrt"}}


def python(code, *arguments, **environment):
    """Run `code` in an interpreter of its own and return what it prints."""
    return subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code), *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    ).stdout


@pytest.mark.parametrize("provider", PROVIDERS)
def test_show_config_names_the_provider_of_each_entry(provider):
    before = lucid.show_config("dicts")["provider"]
    with table.using(provider):
        config = lucid.show_config("dicts")
        assert config["provider"] == provider
        served = {name for name, by in config["entries"].items() if by == provider}
        assert served >= SERVED
        if provider != "simd":
            assert served == SERVED | MORE.get(provider, set())
    assert lucid.show_config("dicts")["provider"] == before


@pytest.mark.parametrize("provider", PROVIDERS)
def test_environment_chooses(provider):
    code = "import lucid; print(lucid.show_config('dicts')['provider'])"
    assert python(code, LUCID_PROVIDER=provider).strip() == provider


@pytest.mark.parametrize("choice", [{"provider": "fpga"}, {"isa": "vax"}])
def test_an_unknown_name_raises_and_says_what_there_is(choice):
    ((kind, name),) = choice.items()
    before = table.active()
    with pytest.raises(ImportError, match=name) as error:
        table.activate(**choice)
    assert all(known in str(error.value) for known in table.available()[f"{kind}s"])
    assert table.active() == before
    code = """
        import sys
        try:
            import lucid
        except ImportError as error:
            print(error)
    """
    assert name in python(code, **{f"LUCID_{kind.upper()}": name})


def test_import_loads_no_provider_before_it_is_chosen():
    code = """
        import sys, lucid
        lucid.mean([1.0, 2.0])
        lucid.show_config("dicts")
        loaded = ("scipy", "lucid._kernels._blas")
        before = [m in sys.modules for m in loaded]
        with lucid._kernels.provider.using("blas"):
            print(before, [m in sys.modules for m in loaded])
    """
    assert python(code, LUCID_PROVIDER="simd").strip() == "[False, False] [True, True]"


# Counts the calls that reach the library: BLAS by way of the functions that `_blas` is about to
# import, Accelerate's shim by its own counter.
COUNTING = """
    import ctypes, json, sys
    import numpy as np
    import lucid
    import lucid.nn.functional as F
    from lucid._kernels import provider as table

    provider = sys.argv[1]
    calls = {}

    def count_blas():
        from scipy.linalg import cython_blas
        api = ctypes.pythonapi
        api.PyCapsule_GetName.restype = ctypes.c_char_p
        api.PyCapsule_GetName.argtypes = [ctypes.py_object]
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_New.restype = ctypes.py_object
        api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        results = {"ddot": ctypes.c_double, "idamax": ctypes.c_int}
        kept = []
        for name, n in dict(ddot=5, idamax=3, dgemv=11, dger=9, daxpy=6, saxpy=6).items():
            capsule = cython_blas.__pyx_capi__[name]
            signature = api.PyCapsule_GetName(capsule)
            kind = ctypes.CFUNCTYPE(results.get(name), *[ctypes.c_void_p] * n)
            original = kind(api.PyCapsule_GetPointer(capsule, signature))

            def counting(*arguments, name=name, original=original):
                calls[name] = calls.get(name, 0) + 1
                return original(*arguments)

            kept += [counting, kind(counting), signature]
            pointer = ctypes.cast(kept[-2], ctypes.c_void_p)
            cython_blas.__pyx_capi__[name] = api.PyCapsule_New(pointer, signature, None)
        return kept

    def snapshot():
        if provider == "blas":
            return dict(calls)
        counters = (ctypes.c_size_t * len(NAMES)).in_dll(SHIM, "lucid_shim_calls")
        return dict(zip(NAMES, counters))

    if provider == "blas":
        kept = count_blas()
    else:
        from lucid._kernels import _accelerate
        SHIM = ctypes.CDLL(_accelerate.__file__)
        SHIM.lucid_shim_names.restype = ctypes.c_char_p
        NAMES = SHIM.lucid_shim_names().decode().split()
    lucid.set_num_threads(1)
    rng = np.random.default_rng(0)
    report = {}

    def measure(name, function, *arguments, **options):
        before = snapshot()
        function(*arguments, **options)
        after = snapshot()
        report[name] = {k: n - before.get(k, 0) for k, n in after.items() if n > before.get(k, 0)}

    def forward_and_backward(x, grads):
        t = lucid.tensor(x, requires_grad=True)
        w = lucid.tensor(np.array([1, 2, 3, 4], x.dtype), requires_grad=True)
        y = F.batch_norm(t, None, None, w, training=True)
        dx, = lucid.grad(y, t, grads, create_graph=True)
        lucid.grad(dx, [t, w], grads)

    with table.using(provider):
        for dtype in ("f4", "f8"):
            x = rng.standard_normal((8, 6000)).astype(dtype)
            measure("sum_rows " + dtype, lucid.mean, x, 1)
            measure("moments_rows " + dtype, lucid.var, x, 1)
            x = rng.standard_normal((1000, 40)).astype(dtype)
            measure("sum_cols " + dtype, lucid.mean, x, 0)
            measure("moments_cols " + dtype, lucid.var, x, 0)
            mean, var, weight = np.ones(4), np.ones(4), np.array([1, 2, 3, 4.0])
            rows = rng.standard_normal((16, 4, 300)).astype(dtype)
            cols = np.moveaxis(np.ascontiguousarray(np.moveaxis(rows, 1, -1)), -1, 1)
            for layout, x in (("rows", rows), ("cols", cols)):
                measure(f"affine_{layout} {dtype}", F.batch_norm, x, mean, var, weight)
                measure(f"all_{layout} {dtype}", forward_and_backward, x, x * x)
    print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def counted():
    """What each provider called for each piece of work, counted once for all tests."""
    done = {}

    def count(provider):
        if provider not in done:
            done[provider] = json.loads(python(COUNTING, provider, LUCID_PROVIDER="simd"))
        return done[provider]

    return count


# Blocks of up to 512 elements: 8 rows of 12; 12 rows of 40 columns, 64 to
# turn; 16 * 4 rows of 300; columns of 64. In float64 each sum is two, of the parts of the split
# elements.
BLOCKS = {
    "blas": {
        "sum_rows f4": {"ddot": 96},
        "sum_rows f8": {"ddot": 192, "idamax": 96, "daxpy": 288},
        "sum_cols f4": {"dgemv": 84},
        "sum_cols f8": {"dgemv": 168, "dger": 168, "daxpy": 84},
        "moments_rows f4": {"ddot": 288, "daxpy": 96},
        "moments_cols f4": {"dgemv": 84, "ddot": 1920, "daxpy": 640},
        "affine_rows f4": {"saxpy": 128},
        "affine_cols f8": {"daxpy": 600},
    },
    "accelerate": {
        "sum_rows f4": {"vDSP_vspdp": 96, "vDSP_sveD": 96},
        "sum_rows f8": {
            "vDSP_maxmgvD": 96,
            "vDSP_vsaddD": 192,
            "vDSP_vsubD": 96,
            "vDSP_sveD": 192,
        },
        "sum_cols f4": {"vDSP_vspdp": 1000, "cblas_dgemv": 84},
        "sum_cols f8": {"cblas_dgemv": 168, "cblas_dger": 168, "vDSP_vsubD": 84},
        "moments_rows f4": {
            "vDSP_vspdp": 96,
            "vDSP_sveD": 192,
            "vDSP_svesqD": 96,
            "vDSP_vsaddD": 96,
        },
        "affine_rows f4": {"vDSP_vsadd": 64, "vDSP_vsmsa": 64, "vvrsqrt": 4},
        "affine_cols f8": {"vDSP_vsaddD": 300, "vDSP_vsmsaD": 300, "vvrsqrt": 4},
    },
}


@pytest.mark.skipif(sys.platform == "darwin", reason="the framework's calls can not be counted")
@pytest.mark.parametrize("provider", OTHERS)
def test_the_provider_does_its_own_work(provider, counted):
    report = counted(provider)
    assert {name.split("_")[0] for name in report} == {"sum", "moments", "affine", "all"}
    for name, calls in BLOCKS[provider].items():
        assert report[name] == calls, name
    # Forward, backward and double backward: 2, 2 and 5 sums in 64 runs or 76, and more for the
    # first elements; 2, 3 and 7 terms of the combinations.
    for layout, runs in (("rows", 64), ("cols", 76)):
        for dtype in ("f4", "f8"):
            calls = report[f"all_{layout} {dtype}"]
            assert sum(calls.values()) >= 21 * runs, (layout, dtype, calls)


@pytest.mark.parametrize("provider", OTHERS)
def test_zero_times_infinity_is_nan(provider):
    x = np.array([[1, 2], [np.inf, 3], [np.nan, 4]], np.float32)
    for dtype in (np.float32, np.float64):
        for layout in (x.astype(dtype), np.asfortranarray(x.astype(dtype))):
            with table.using(provider):
                y = lucid.nn.functional.batch_norm(
                    layout, np.zeros(2), np.ones(2), np.zeros(2), np.full(2, 5.0), eps=0
                )
            np.testing.assert_array_equal(y, [[5, 5], [np.nan, 5], [np.nan, 5]])


@pytest.mark.parametrize("provider", OTHERS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e308])
def test_sums_of_what_can_not_be_split(provider, value):
    x = np.ones((300, 40))
    x[5:9, 3] = value
    with np.errstate(all="ignore"), table.using(provider):
        rows, columns = lucid.mean(x.T.copy(), 1), lucid.mean(x, 0)
        expected = x.mean(axis=0)
    np.testing.assert_array_equal(rows, columns)
    np.testing.assert_allclose(rows, expected, rtol=1e-15)


@pytest.mark.parametrize("provider", OTHERS)
def test_columns_of_different_sizes_keep_their_digits(provider):
    x = np.random.default_rng(1).standard_normal((3000, 30)) * 10.0 ** np.arange(-150, 150, 10)
    with table.using("simd"):
        expected = lucid.mean_var(x, 0)
    with table.using(provider):
        np.testing.assert_allclose(lucid.mean_var(x, 0), expected, rtol=1e-13)
        mean = lucid.mean(x, 0)
    np.testing.assert_array_equal(mean, expected[0])  # both all but correctly rounded
