//% if sharing != tiles
// Accumulators to and from the workspace, past L1, which may hold what another block has
// overwritten since.
#pragma once

KILN_DEVICE void store_past_l1(float* to, float x) {
  asm volatile("st.global.cg.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}
KILN_DEVICE void store_past_l1(double* to, double x) {
  asm volatile("st.global.cg.f64 [%0], %1;" ::"l"(to), "d"(x) : "memory");
}
KILN_DEVICE void store_past_l1(i32* to, i32 x) {
  asm volatile("st.global.cg.s32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
KILN_DEVICE void load_past_l1(float& x, const float* from) {
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
}
KILN_DEVICE void load_past_l1(double& x, const double* from) {
  asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(x) : "l"(from) : "memory");
}
KILN_DEVICE void load_past_l1(i32& x, const i32* from) {
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
}
//% end
