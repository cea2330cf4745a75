// The instructions since Turing and Ampere that kernels are built on, one small named wrapper each:
// copies to shared memory that the copying warp does not wait for, loads of matrices. Addresses are
// 32-bit ones of shared memory.
#pragma once

KILN_DEVICE u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }
/// The compiler forgets what it knows of x, so that what follows from it is worked out here and not
/// kept from where it was worked out before.
KILN_DEVICE void forget(int& x) { asm volatile("" : "+r"(x)); }

//% if async
/// 16 bytes: the first `valid` from memory, zeros behind them.
KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_8(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_4(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `Pending` of this thread's groups of copies are on their way.
template <int Pending>
KILN_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
//% end

/// Four 8×8 matrices of 16-bit elements; lanes 8i to 8i+7 give the rows of matrix i.
KILN_DEVICE void ldmatrix_x4(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
/// The same, each matrix transposed.
KILN_DEVICE void ldmatrix_x4_trans(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
KILN_DEVICE void load_shared_words(u32 (&r)[4], u32 from) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
//% if double
KILN_DEVICE void load_shared_one(double& r, u32 from) {
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(r) : "r"(from) : "memory");
}
KILN_DEVICE void load_shared_two(double (&r)[2], u32 from) {
  asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(r[0]), "=d"(r[1]) : "r"(from) : "memory");
}
//% else
KILN_DEVICE void load_shared_one(u32& r, u32 from) {
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(from) : "memory");
}
KILN_DEVICE void load_shared_two(u32 (&r)[2], u32 from) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(from) : "memory");
}
//% end
//% if short_runs
KILN_DEVICE void store_shared_pair(u32 to, u32 low, u32 high) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(low), "r"(high) : "memory");
}
//% end
KILN_DEVICE void store_shared_words(u32 to, const u32 (&r)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}
//% if tf32
/// To nearest: the matrix instruction by itself would cut the low bits off.
KILN_DEVICE u32 round_to_tf32(u32 x) {
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__int_as_float(int(x))));
  return y;
}
//% end
