// What kernels for AMD take from their compiler, for a compiler of ordinary C++: builtins by the
// same names. Attributes of device code mean nothing to it and stay. Stands before everything else
// of an emulated source. Expects emu/abi.h.
#pragma once

/// Filled in by whoever loads the compiled source.
extern "C" __attribute__((visibility("default"))) const KilnEmuOps* kiln_emu_ops;
const KilnEmuOps* kiln_emu_ops = nullptr;

/// Who asks: the same for as long as a function runs, so the compiler need not ask again.
__attribute__((const, noinline)) static const KilnEmuLane* kiln_emu_lane() {
  return kiln_emu_ops->lane();
}
#define __builtin_amdgcn_workitem_id_x() (kiln_emu_lane()->thread.x)
#define __builtin_amdgcn_workgroup_id_x() (kiln_emu_lane()->block.x)
#define __builtin_amdgcn_workgroup_id_y() (kiln_emu_lane()->block.y)
#define __builtin_amdgcn_workgroup_id_z() (kiln_emu_lane()->block.z)
#define __builtin_amdgcn_workgroup_size_x() (kiln_emu_lane()->threads.x)
#define __builtin_amdgcn_grid_size_x() (kiln_emu_lane()->blocks.x * kiln_emu_lane()->threads.x)
#define __builtin_amdgcn_grid_size_y() (kiln_emu_lane()->blocks.y * kiln_emu_lane()->threads.y)
#define __builtin_amdgcn_grid_size_z() (kiln_emu_lane()->blocks.z * kiln_emu_lane()->threads.z)
#define __builtin_amdgcn_frexp_expf(x) kiln_emu_exponent(x)
#define __builtin_amdgcn_readfirstlane(value) (kiln_emu_ops->first_lane(value))
#define __builtin_amdgcn_s_barrier() (kiln_emu_ops->bare_barrier())
#define __builtin_amdgcn_fence(order, scope) (kiln_emu_ops->store_fence())
#define __builtin_amdgcn_s_waitcnt(counts) kiln_emu_wait(counts)
#define __builtin_amdgcn_s_setprio(level) ((void)0)
#define __builtin_amdgcn_sched_barrier(mask) ((void)0)
#define __builtin_amdgcn_sched_group_barrier(mask, count, id) ((void)0)
#define address_space(number)  // in an attribute: the host has one
#define __HIP_MEMORY_SCOPE_AGENT 0
#define __hip_atomic_fetch_add(to, value, order, scope) __atomic_fetch_add(to, value, order)
#define __hip_atomic_fetch_min(to, value, order, scope) __atomic_fetch_min(to, value, order)
#define __hip_atomic_fetch_max(to, value, order, scope) __atomic_fetch_max(to, value, order)

/// e of x = m · 2^e with m in [1/2, 1).
static inline int kiln_emu_exponent(float x) {
  int exponent = 0;
  (void)__builtin_frexpf(x, &exponent);
  return exponent;
}

/// The counts of gfx9: loads in bits 0-3 and 14-15, shared memory in 8-11; all ones wait for
/// nothing.
static inline void kiln_emu_wait(unsigned counts) {
  const unsigned loads = (counts & 15) | (counts >> 14 & 3) << 4;
  if (loads != 63) kiln_emu_ops->wait_count(int(loads));
  if ((counts >> 8 & 15) == 0) kiln_emu_ops->store_fence();
}

/// A register with scales in its four bytes. Not what a literal 0 is: by that the compiler takes
/// the instruction without scales, while zeros in a register mean 2^-127.
struct KilnEmuScales {
  unsigned word;
  KilnEmuScales(unsigned w) : word(w) {}
  KilnEmuScales(int w) : word(unsigned(w)) {}
};
struct KilnEmuNoScales;

/// Stands for the builtin of this name.
struct KilnEmuMatrixNamed {
  const char* name;

  template <typename A, typename B, typename C, typename... Immediates>
  C run(const A& a, const B& b, const C& c, unsigned scale_a, unsigned scale_b,
        Immediates... immediates) const {
    const int all[] = {immediates...};
    C d;
    const KilnEmuMatrix m{name,      &a,        &b,        &c,  &d,
                          sizeof(A), sizeof(B), sizeof(C), all, int(sizeof...(immediates)),
                          scale_a,   scale_b};
    kiln_emu_ops->matrix(&m);
    return d;
  }
  template <typename A, typename B, typename C>
  C operator()(const A& a, const B& b, const C& c, int cbsz, int abid, int blgp) const {
    return run(a, b, c, 0, 0, cbsz, abid, blgp);
  }
  template <typename A, typename B, typename C>
  C operator()(const A& a, const B& b, const C& c, int format_a, int format_b, int,
               KilnEmuNoScales*, int, KilnEmuNoScales*) const {
    return run(a, b, c, 0, 0, format_a, format_b, 0, 0, 0);
  }
  /// With a scale of every 32 elements along k, in the byte of a lane's register that is selected.
  template <typename A, typename B, typename C>
  C operator()(const A& a, const B& b, const C& c, int format_a, int format_b, int select_a,
               KilnEmuScales scale_a, int select_b, KilnEmuScales scale_b) const {
    return run(a, b, c, scale_a.word, scale_b.word, format_a, format_b, select_a, select_b, 1);
  }
};
#define KILN_EMU_MATRIX(name) (KilnEmuMatrixNamed{name})

// What the compiler calls where the processor has no such conversion; it says so too late for
// functions that nobody else calls to be kept by themselves.
extern "C" __attribute__((used)) _Float16 __truncsfhf2(float x) {
  return __builtin_bit_cast(_Float16, (unsigned short)kiln_emu_ops->from_float(x, kKilnEmuHalf));
}
extern "C" __attribute__((used)) float __extendhfsf2(_Float16 x) {
  return kiln_emu_ops->to_float(__builtin_bit_cast(unsigned short, x), kKilnEmuHalf);
}
extern "C" __attribute__((used)) __bf16 __truncsfbf2(float x) {
  return __builtin_bit_cast(__bf16, (unsigned short)kiln_emu_ops->from_float(x, kKilnEmuBfloat));
}
