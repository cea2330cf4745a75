// How matrix kernels reach memory: buffer loads, which give zero for what lies outside, and what
// steers the order of reads and writes. Expects memory_gcn.h, device.h.
#pragma once

//% if direct
/// Until every load from memory of this wave has arrived, also those straight into shared memory.
KILN_DEVICE void wait_for_loads() { __builtin_amdgcn_s_waitcnt(0x0f70); }
//% end
//% if priority
/// 0 to 3: which wave of a SIMD issues first.
template <int Level>
KILN_DEVICE void set_priority() {
  __builtin_amdgcn_s_setprio(Level);
}
//% end
//% if fence
/// The compiler moves nothing across.
KILN_DEVICE void schedule_fence() { __builtin_amdgcn_sched_barrier(0); }
//% end

//% if split
/// Writes of this thread before, seen by every block that acquires after: chiplets have caches of
/// their own.
KILN_DEVICE void release_to_device() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
KILN_DEVICE void acquire_from_device() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
/// Adds one; how many came before.
KILN_DEVICE u32 count_arrival(u32* counter) {
  return __hip_atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
}
//% end

/// `base` and `bytes` are the same in all lanes. Said aloud: where the compiler's own analysis
/// loses sight of it, every load would become a loop over lanes.
KILN_DEVICE Buffer buffer_of(const void* base, u32 bytes) {
  const u64 address = (u64)base;
  return Buffer{i32(uniform(u32(address))), i32(uniform(u32(address >> 32)) & 0xffff),
                i32(uniform(bytes)), 0x00020000};
}
/// An offset that no buffer reaches.
constexpr u32 kOutside = 0x80000000u;

/// `Bytes` (1 to 16) bytes at byte `offset`, in the low bytes of the words.
template <int Bytes>
KILN_DEVICE void buffer_load(u32 (&words)[(Bytes + 3) / 4], Buffer buffer, u32 offset) {
  if constexpr (Bytes == 16) {
    const U32x4 v = kiln_load_x4(buffer, i32(offset), 0, 0);
    KILN_UNROLL for (int i = 0; i < 4; ++i) words[i] = v[i];
  } else if constexpr (Bytes == 8) {
    const U32x2 v = kiln_load_x2(buffer, i32(offset), 0, 0);
    KILN_UNROLL for (int i = 0; i < 2; ++i) words[i] = v[i];
  } else if constexpr (Bytes == 4) {
    words[0] = kiln_load_x1(buffer, i32(offset), 0, 0);
  } else if constexpr (Bytes == 2) {
    words[0] = kiln_load_u16(buffer, i32(offset), 0, 0);
  } else {
    static_assert(Bytes == 1, "a buffer load takes 1, 2, 4, 8 or 16 bytes");
    words[0] = kiln_load_u8(buffer, i32(offset), 0, 0);
  }
}
