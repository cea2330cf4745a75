"""What is refused, and with which words."""

import importlib.util
import pickle

import numpy as np
import pytest

import kiln

A = np.ones((4, 6), np.float32)
B = np.ones((6, 5), np.float32)
OUT = np.empty((4, 5), np.float32)


def refused(error, words, *arguments, **keywords):
    with pytest.raises(error) as caught:
        kiln.matmul(*arguments, **keywords)
    assert words in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "name, array",
    [
        ("a", A[::-1]),
        ("a", A[:, ::-1]),
        ("a", np.ones((4, 12), np.float32)[:, ::2]),
        ("a", np.broadcast_to(np.float32(1), (4, 6))),
        ("a", np.lib.stride_tricks.as_strided(A, (4, 6), (8, 4))),
        ("b", np.ones((6, 10), np.float32)[:, ::2]),
        ("out", np.empty((4, 10), np.float32)[:, ::2]),
    ],
)
def test_strides_that_kiln_cannot_express(name, array):
    arguments = {"a": A, "b": B, "out": OUT, name: array}
    shape, strides = (str(x) for x in (array.shape, tuple(s // 4 for s in array.strides)))
    error = refused(kiln.BadInput, f"{name} = float32 array of shape {shape}", **arguments)
    assert f"strides {strides}" in str(error) and isinstance(error, ValueError)


def test_strides_of_no_whole_elements():
    fields = np.zeros((4, 6), [("x", "f4"), ("y", "i2")])
    refused(ValueError, "strides of (36, 6) bytes", fields["x"], B)


def test_batch_strides():
    batch = np.ones((3, 4, 6), np.float32)
    many = np.ones((3, 6, 5), np.float32)
    refused(ValueError, "a = float32 array of shape (3, 4, 6)", batch[::-1], many)
    refused(ValueError, "one a for a batch of b", A, many)
    refused(ValueError, "one a for a batch of b", A, np.broadcast_to(B, (3, 6, 5)))
    refused(ValueError, "a = float32 array", np.broadcast_to(A, (3, 4, 6)), B)
    refused(ValueError, "one a for a batch of b", np.broadcast_to(A, (3, 4, 6)), many)
    refused(ValueError, "batches of 3 and 2", batch, many[:2])
    refused(ValueError, "one behind the other", np.ones((3, 8, 6), np.float32)[:, :4], B)
    overlapping = np.lib.stride_tricks.as_strided(np.empty(100, np.float32), (3, 4, 5), (4, 20, 4))
    refused(ValueError, "stride_d = 1", batch, many, out=overlapping)


def test_shapes():
    refused(ValueError, "a has 6 columns, b has 5 rows", A, B[:5])
    refused(ValueError, "must have 2 or 3 dimensions", A[0], B)
    refused(ValueError, "a has 4 dimensions", A[None, None], B)
    refused(ValueError, "a has 0 dimensions", np.array(1, np.float32), B)
    refused(ValueError, "must have shape (4, 5)", A, B, out=np.empty((5, 4), np.float32))
    refused(ValueError, "must have shape (4, 5)", A, B, c=A, beta=1)
    refused(ValueError, "must have shape (4, 5)", A, B, residual=OUT[None])
    refused(ValueError, "bias = float32 array of shape (4,)", A, B, bias=np.ones(4, np.float32))
    refused(ValueError, "contiguous", A, B, bias=np.ones(10, np.float32)[::2])


def test_types():
    refused(TypeError, "a = list: must be a NumPy array", [[1.0]], B)
    for wrong in (A.astype(np.int64), A.astype(">f4"), A.astype(complex), A.astype(bool)):
        refused(TypeError, "a.dtype = ", wrong, B)
    refused(kiln.Unsupported, "a.dtype = fp32, b.dtype = fp64", A, B.astype(float))
    refused(NotImplementedError, "d.dtype = fp64", A, B, out_dtype=np.float64)
    refused(ValueError, "out_dtype is float16", A, B, out=OUT, out_dtype="float16")
    refused(TypeError, "out_dtype = int64: must be one of float32", A, B, out_dtype="int64")
    if not importlib.util.find_spec("ml_dtypes"):
        refused(TypeError, "without the package ml_dtypes", A, B, out_dtype="bfloat16")
    refused(TypeError, "bias.dtype = float64: must be float32", A, B, bias=np.ones(5))
    refused(TypeError, "c.dtype = float64", A, B, c=np.ones((4, 5)), beta=1)
    refused(TypeError, "residual.dtype = float16", A, B, residual=np.ones((4, 5), np.float16))


def test_numbers_and_names():
    refused(TypeError, "alpha = str: must be a number", A, B, alpha="1")
    refused(TypeError, "threads = float: must be an integer", A, B, threads=1.5)
    refused(ValueError, "threads = -1", A, B, threads=-1)
    refused(ValueError, "threads: does not fit", A, B, threads=2**70)
    refused(ValueError, "activation = tanh: must be one of none, relu", A, B, activation="tanh")
    refused(TypeError, "activation = int: must be a str", A, B, activation=3)
    refused(ValueError, "c is given without beta", A, B, c=OUT)
    refused(ValueError, "beta = 1 is given without c", A, B, beta=1)
    refused(TypeError, "unexpected argument 'ouch'", A, B, ouch=1)
    refused(TypeError, "only a and b are positional", A, B, OUT)
    refused(TypeError, "a and b are needed", A)
    refused(TypeError, "a is given twice", A, B, a=A)
    refused(TypeError, "engine = int: must be a kiln.Engine", A, B, engine=1)


def test_out():
    frozen = OUT.copy()
    frozen.flags.writeable = False
    refused(ValueError, "out is read-only", A, B, out=frozen)
    square = np.ones((4, 4), np.float32)
    refused(ValueError, "overlaps d", square, square.copy(), out=square)
    refused(ValueError, "overlaps d", square.copy(), square, out=square)
    buffer = np.ones((8, 4), np.float32)
    refused(ValueError, "overlaps d", buffer[:4], square, out=buffer[3:7])
    refused(ValueError, "overlaps d", square, square, residual=buffer[:4], out=buffer[:4])
    refused(ValueError, "overlaps d", square, square, c=buffer[1:5], beta=1, out=buffer[:4])
    # Columns of one buffer that interleave without sharing an element.
    wide = np.ones((4, 8), np.float32)
    kiln.matmul(wide[:, :4], square, out=wide[:, 4:])
    assert (wide[:, 4:] == 4).all() and (wide[:, :4] == 1).all()


def test_orders_of_terms():
    turned = np.ones((5, 4), np.float32).T
    refused(ValueError, "must be stored in the order of out", A, B, c=turned, beta=1)
    refused(ValueError, "must have the strides of out", A, B, residual=turned)
    wide = np.ones((4, 9), np.float32)[:, :5]
    refused(ValueError, "must have the strides of out", A, B, residual=wide)


def test_scales():
    refused(kiln.Unsupported, "scale_a = line: a.dtype = fp32", A, B, scale_a=np.ones(4, "f4"))
    refused(ValueError, "scale_b", A, B, scale_b=np.ones(4, "f4"))


def test_numerics():
    refused(kiln.Unsupported, "numerics = fast: a.dtype = fp32", A, B, numerics="fast")
    refused(ValueError, "numerics = quick: must be ieee, fast or tensor", A, B, numerics="quick")


def test_hierarchy():
    for name in kiln.__all__:
        thing = getattr(kiln, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert issubclass(thing, kiln.Error)
    error = refused(kiln.BadInput, "a has 6", A, B[:5])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kiln.BadInput and str(again) == str(error)


def never_made(kind):
    """Objects whose __init__ did not run: memory that nothing was written to."""

    class Derived(kind):
        pass

    return [kind.__new__(kind), Derived.__new__(Derived)]


def test_objects_that_were_never_made_are_refused():
    for packed in never_made(kiln.PackedB):
        for field in ("shape", "dtype", "nbytes"):
            with pytest.raises(TypeError, match="PackedB.__init__ was not called"):
                getattr(packed, field)
        with pytest.raises(TypeError):
            kiln.matmul(A, packed)
    for engine in never_made(kiln.Engine):
        for use in (
            lambda e: e.close(),
            lambda e: e.closed,
            lambda e: e.device,
            lambda e: e.matmul(A, B),
            lambda e: e.tune("fp32 N N 8 8 8"),
            lambda e: e.explain("fp32 N N 8 8 8"),
            lambda e: e.pack_b(B),
        ):
            with pytest.raises(TypeError, match="Engine.__init__ was not called"):
                use(engine)
    unfinished = kiln.Engine.__new__(kiln.Engine)
    with pytest.raises(kiln.BadInput):
        unfinished.__init__(policy="maybe")
    with pytest.raises(TypeError, match="Engine.__init__ was not called"):
        unfinished.close()


def test_reports_are_made_by_kiln_alone():
    for kind in (kiln.TuneReport, kiln.RangeReport, kiln.RangePart):
        for make in (kind, lambda: kind.__new__(kind), lambda: object.__new__(kind)):
            with pytest.raises(TypeError):
                make()
