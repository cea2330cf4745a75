// Who reads and who multiplies when: what kernels say to the compiler and to the waves of a SIMD.
// Expects device.h, memory_gcn.h, memory.h.
#pragma once

//% if pace == pingpong || pace == interleaved
/// Until this wave's reads from shared memory and writes to it are done; not its loads.
KILN_DEVICE void wait_for_shared() { __builtin_amdgcn_s_waitcnt(0xc07f); }

/// All waves arrive, and what they read from shared memory or wrote to it is done. Without
/// block_barrier()'s fences, which would also wait for loads straight into shared memory; these are
/// to stay on their way. The compiler moves nothing across, products neither.
KILN_DEVICE void shared_barrier() {
  schedule_fence();
  compiler_barrier();
  wait_for_shared();
  __builtin_amdgcn_s_barrier();
  compiler_barrier();
  schedule_fence();
}
//% end
//% if pace == pingpong

/// The end of a wave's reads or of its products: the block's waves go on together.
KILN_DEVICE void half_step() { shared_barrier(); }
//% end
//% if pace == interleaved

/// Kinds of instructions, as sched_group_barrier knows them.
constexpr int kMatrix = 0x008, kLoad = 0x020, kSharedRead = 0x100, kSharedWrite = 0x200;

/// The compiler is to order what stands before this as said here: so many instructions of a kind.
/// Compilers that know no such order keep their own.
template <int Kind, int Count>
KILN_DEVICE void next_are() {
#if __has_builtin(__builtin_amdgcn_sched_group_barrier)
  if constexpr (Count > 0) __builtin_amdgcn_sched_group_barrier(Kind, Count, 0);
#endif
}

/// `Count` instructions of a kind, which are number `First` and following of `All`: behind each
/// stands its share of the products.
template <int Kind, int First, int Count, int All, int Products>
KILN_DEVICE void lay_between() {
  if constexpr (Count > 0) {
    next_are<Kind, 1>();
    next_are<kMatrix, (First + 1) * Products / All - First * Products / All>();
    lay_between<Kind, First + 1, Count - 1, All, Products>();
  }
}
/// The products that no instruction before took as its share.
template <int Count, int All, int Products>
KILN_DEVICE void lay_rest() {
  next_are<kMatrix, Products - Count * Products / All>();
}
//% end
