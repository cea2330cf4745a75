// What lies where in the workspace: counters (zero between calls), packed A, packed B, then
// partial accumulators. Worked out from the call, so that the same code serves every size.
#pragma once

/// A packed operand: `length` neighbours a line. Elements of 16 bits keep their direction, which
/// the matrix instruction can turn; others are turned to run along k.
template <typename T, bool AlongK>
struct PackedShape {
  static constexpr bool kTurned = !AlongK && sizeof(T) != 2;
  i64 length, lines;
  static __device__ __forceinline__ PackedShape of(i64 rows, i64 k) {
    return AlongK || kTurned ? PackedShape{k, rows} : PackedShape{rows, k};
  }
  __device__ __forceinline__ i64 pitch() const {
    return ceil_div(length * i64(sizeof(T)), 128) * 128;
  }
  __device__ __forceinline__ i64 bytes() const { return pitch() * lines; }
};
//% if halves
/// One of the two parts that fp32 is split into, always k-major.
using PackedA = PackedShape<Half, true>;
using PackedB = PackedShape<Half, true>;

/// Both parts of an operand's batches, behind which lie the exponents of its rows.
KILN_DEVICE i64 parts_bytes(const KilnGpuArgs& args, i64 rows) {
  return PackedA::of(rows, args.k).bytes() * 2 * args.batch;
}
KILN_DEVICE i64 split_bytes(const KilnGpuArgs& args, i64 rows) {
  return parts_bytes(args, rows) + rows * args.batch * i64(sizeof(i32));
}
KILN_DEVICE i64 packed_a_at() { return kCounterBytes; }
KILN_DEVICE i64 packed_b_at(const KilnGpuArgs& args) {
  return packed_a_at() + ceil_div(split_bytes(args, args.m), 256) * 256;
}
KILN_DEVICE i64 sums_at(const KilnGpuArgs& args) {
  return packed_b_at(args) + ceil_div(split_bytes(args, args.n), 256) * 256;
}
KILN_DEVICE i64 exponents_a_at(const KilnGpuArgs& args) {
  return packed_a_at() + parts_bytes(args, args.m);
}
KILN_DEVICE i64 exponents_b_at(const KilnGpuArgs& args) {
  return packed_b_at(args) + parts_bytes(args, args.n);
}
//% else
using PackedA = PackedShape<TypeA, kAlongKA>;
using PackedB = PackedShape<TypeB, kAlongKB>;

KILN_DEVICE i64 packed_a_at() { return kCounterBytes; }
KILN_DEVICE i64 packed_b_at(const KilnGpuArgs& args) {
  const i64 bytes = kPackA ? PackedA::of(args.m, args.k).bytes() * args.batch : 0;
  return packed_a_at() + ceil_div(bytes, 256) * 256;
}
KILN_DEVICE i64 sums_at(const KilnGpuArgs& args) {
  //% if gate
  const i64 bytes = kPackB ? PackedB::of(2 * args.n, args.k).bytes() * args.batch : 0;
  //% else
  const i64 bytes = kPackB ? PackedB::of(args.n, args.k).bytes() * args.batch : 0;
  //% end
  return packed_b_at(args) + ceil_div(bytes, 256) * 256;
}
//% end
