"""Random views of random buffers: a call gives NumPy's product and touches nothing else, or is
refused, and what NumPy itself would read as it lies is refused only for its strides."""

import numpy as np
import pytest

import kiln


class Draw:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def chance(self, p):
        return self.random.random() < p

    def matrix(self, shape, order, filled=True):
        """A view of this shape into a larger buffer, and the buffer: lines apart, batches apart."""
        gaps = [int(g) if self.chance(0.3) else 0 for g in self.random.integers(1, 5, len(shape))]
        axes = list(range(len(shape)))
        if order == "F":
            axes[-2:] = reversed(axes[-2:])
        if len(shape) == 3 and self.chance(0.2):
            axes[0], axes[1] = axes[1], axes[0]
        outer = [shape[x] + gaps[x] for x in axes]
        size = int(np.prod(outer))
        buffer = self.random.uniform(-1, 1, size) if filled else np.full(size, 7.0)
        buffer = buffer.astype(np.float32).reshape(outer)
        view = buffer.transpose(np.argsort(axes))[tuple(slice(0, n) for n in shape)]
        if self.chance(0.03) and view.ndim:
            view = view[..., ::-1]
        return view, buffer


@pytest.mark.parametrize("seed", range(400))
def test_random(seed):
    draw = Draw(seed)
    m, n, k = (int(x) for x in draw.random.choice([0, 1, 2, 3, 8, 17, 33], 3))
    batch = [int(draw.random.integers(0, 4))] if draw.chance(0.5) else []
    order = str(draw.random.choice(["C", "F"]))
    a, _ = draw.matrix([*batch, m, k], str(draw.random.choice(["C", "F"])))
    b, _ = draw.matrix([k, n] if draw.chance(0.3) else [*batch, k, n], str(draw.random.choice(["C", "F"])))
    out, around = draw.matrix([*batch, m, n], order, filled=False)
    expected = a.astype(float) @ b
    arguments = {}
    if draw.chance(0.4):
        arguments["bias"] = draw.random.uniform(-1, 1, n).astype(np.float32)
        expected = expected + arguments["bias"]
    if draw.chance(0.3):
        arguments["c"], arguments["beta"] = draw.matrix([*batch, m, n], order)[0], 0.5
        expected = expected + 0.5 * arguments["c"]
    if draw.chance(0.3):
        arguments["activation"] = "relu"
        expected = np.maximum(expected, 0)
    untouched = around.copy()
    try:
        result = kiln.matmul(a, b, out=out, threads=1, **arguments)
    except ValueError as error:
        assert "strides" in str(error) or "order" in str(error) or "one behind" in str(error)
        np.testing.assert_array_equal(around, untouched)
        return
    assert result is out
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    out[...] = 7
    np.testing.assert_array_equal(around, untouched)


def test_most_are_computed():
    computed = 0
    for seed in range(100):
        draw = Draw(seed)
        a, _ = draw.matrix([3, 5, 4], "C")
        b, _ = draw.matrix([3, 4, 6], "F")
        try:
            kiln.matmul(a, b, threads=1)
            computed += 1
        except ValueError:
            pass
    assert computed >= 80
