// Who reads and who multiplies when: what kernels say to the compiler and to the waves of a SIMD.
// Expects device.h, memory.h.
#pragma once

//% if pace == pingpong
/// Until this wave's reads from shared memory and writes to it are done; not its loads.
KILN_DEVICE void wait_for_shared() { __builtin_amdgcn_s_waitcnt(0xc07f); }

/// The end of a wave's reads or of its products: the block's waves go on together. Without
/// block_barrier()'s fences, which would also wait for loads straight into shared memory; these are
/// to stay on their way.
KILN_DEVICE void half_step() {
  schedule_fence();
  asm volatile("" ::: "memory");
  wait_for_shared();
  __builtin_amdgcn_s_barrier();
  asm volatile("" ::: "memory");
  schedule_fence();
}
//% end
//% if pace == interleaved
/// The compiler is to order what stands before this as said here: so many instructions of a kind.
/// Compilers that know no such order keep their own.
template <int Count>
KILN_DEVICE void next_are_products() {
#if __has_builtin(__builtin_amdgcn_sched_group_barrier)
  __builtin_amdgcn_sched_group_barrier(0x008, Count, 0);
#endif
}
template <int Count>
KILN_DEVICE void next_are_shared_reads() {
#if __has_builtin(__builtin_amdgcn_sched_group_barrier)
  __builtin_amdgcn_sched_group_barrier(0x100, Count, 0);
#endif
}

/// Reads from shared memory, each behind its share of the products.
template <int Reads, int Products>
KILN_DEVICE void lay_reads_between() {
  constexpr int kShare = Products / Reads;
  KILN_UNROLL for (int i = 0; i < Reads; ++i) {
    next_are_shared_reads<1>();
    if constexpr (kShare > 0) next_are_products<kShare>();
  }
  if constexpr (Products % Reads > 0) next_are_products<Products - Reads * kShare>();
}
//% end
