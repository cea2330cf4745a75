// One wave, one matrix instruction: D = A · B. A has kRows rows of kDepth elements, B as many
// columns, so that k runs along both; D is fp32, row by row. Expects abi.h, types.h.

using Sums = Vector<float, kSums>;
constexpr u32 kGroups = 64 / kRows;  // lanes that share a row of A, a column of B

KILN_DEVICE u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }

//% if scaled
/// The instruction, under its own name. A lane's scale is the lowest byte of its register.
KILN_DEVICE Sums KILN_MFMA(Operand a, Operand b, Sums sums, u32 scale_a, u32 scale_b) {
  return KILN_MFMA_BUILTIN(a, b, sums, kFormat, kFormat, 0, scale_a, 0, scale_b);
}
//% else
/// The instruction, under its own name.
KILN_DEVICE Sums KILN_MFMA(Operand a, Operand b, Sums sums) {
  return KILN_MFMA_BUILTIN(a, b, sums, 0, 0, 0);
}
//% end

/// What a lane brings of A or of B: part of the k of one row or column.
KILN_DEVICE Operand fragment(const void* matrix, u32 lane) {
  const u8* line = static_cast<const u8*>(matrix) + lane % kRows * kLineBytes;
  const u32 group = lane / kRows;
  Operand operand{};
  //% if two_runs
  // 16 bytes of the first half of k, and 16 of the second.
  __builtin_memcpy(&operand, line + group * 16, 16);
  __builtin_memcpy(reinterpret_cast<u8*>(&operand) + 16, line + kLineBytes / 2 + group * 16, 16);
  //% else
  __builtin_memcpy(&operand, line + group * kLaneBytes, kLaneBytes);
  //% end
  return operand;
}
//% if scaled

/// Powers of two (E8M0), one for every 32 elements along k.
KILN_DEVICE u32 scale(const u8* scales, u32 lane) {
  return scales[lane % kRows * (kDepth / 32) + lane / kRows];
}
//% end

KILN_KERNEL(64, 1) kiln_gemm(KilnGpuArgs args) {
  const u32 lane = thread_index();
  const Operand a = fragment(args.a, lane), b = fragment(args.b, lane);
  //% if scaled
  // The scales of A's rows, then those of B's columns.
  const u8* scale_a = static_cast<const u8*>(args.workspace);
  const u8* scale_b = scale_a + kRows * (kDepth / 32);
  const Sums sums = KILN_MFMA(a, b, Sums(0), scale(scale_a, lane), scale(scale_b, lane));
  //% else
  const Sums sums = KILN_MFMA(a, b, Sums(0));
  //% end
  // A lane has one column, four neighbouring rows at a time.
  float* d = static_cast<float*>(args.d);
  KILN_UNROLL for (u32 i = 0; i < kSums; ++i) {
    const u32 row = i / 4 * (4 * kGroups) + lane / kRows * 4 + i % 4;
    d[row * kRows + lane % kRows] = sums[i];
  }
}
