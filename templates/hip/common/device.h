// What every kernel asks of the device: who am I, and barriers. One small named wrapper each; an
// emulator supplies the same names.
#pragma once

KILN_DEVICE u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }
KILN_DEVICE u32 block_index() { return __builtin_amdgcn_workgroup_id_x(); }
/// A value that is the same in all lanes, told to the compiler so that it is kept in one place.
KILN_DEVICE u32 uniform(u32 value) { return __builtin_amdgcn_readfirstlane(value); }

/// All threads of the block arrive, and what they wrote to shared memory is there for all. The bare
/// instruction does not wait for writes: hence the fences.
KILN_DEVICE void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
