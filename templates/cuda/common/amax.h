//% if amax
// The largest magnitude of D. Each lane keeps that of the elements it finished, as the bits of a
// float without its sign: they are ordered as magnitudes are, those of NaN above all. A maximum has
// no order, so that the same call gives the same bits. Expects convert.h.
#pragma once

KILN_DEVICE u32 larger_magnitude(u32 largest, Real x) {
  return max(largest, float_to_bits(float(x)) & 0x7fffffffu);
}

/// By all lanes of a warp together.
KILN_DEVICE void raise_amax(u32* amax, u32 largest) {
  _Pragma("unroll") for (int apart = 16; apart > 0; apart /= 2)
    largest = max(largest, __shfl_xor_sync(0xffffffff, largest, apart));
  if (threadIdx.x % 32 == 0 && largest > 0) atomicMax(amax, largest);
}

/// One thread, before the blocks of the same call begin.
extern "C" __global__ void kiln_clear(const __grid_constant__ KilnGpuArgs args) {
  *static_cast<u32*>(args.amax_d) = 0;
}
//% end
