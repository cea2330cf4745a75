//% if turned
// Reads from shared memory that transpose: lanes get rows of what lies there in lines. Expects
// memory_gcn.h.
#pragma once

// The pointers are restrict because the order of reads and loads straight into shared memory is the
// kernel's own business (wait_for_loads). Of an intrinsic without any word on aliasing the compiler
// believes that it may read what such loads still bring, and puts vmcnt(0) before it.
//% if element == 2
using TurnedWords = Vector<i16, 4>;
KILN_DEVICE U32x2 ds_read_turned(__attribute__((address_space(3))) TurnedWords* __restrict at) {
  return bits_as<U32x2>(__builtin_amdgcn_ds_read_tr16_b64_v4i16(at));
}
KILN_DEVICE U32x2 ds_read_b64_tr_b16(u32 at) {
  return ds_read_turned((__attribute__((address_space(3))) TurnedWords*)(shared_bytes + at));
}
//% else
using TurnedWords = Vector<i32, 2>;
KILN_DEVICE U32x2 ds_read_turned(__attribute__((address_space(3))) TurnedWords* __restrict at) {
  return bits_as<U32x2>(__builtin_amdgcn_ds_read_tr8_b64_v2i32(at));
}
KILN_DEVICE U32x2 ds_read_b64_tr_b8(u32 at) {
  return ds_read_turned((__attribute__((address_space(3))) TurnedWords*)(shared_bytes + at));
}
//% end
//% end
