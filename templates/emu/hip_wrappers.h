// Stands in an emulated source for the headers of templates/hip that end in _gcn.h and has all
// their names: shared memory by byte offset, buffer loads that give zero for what lies outside.
// Expects types.h, the parameters, emu/hip_keywords.h.
#pragma once

KILN_DEVICE void compiler_barrier() {}

KILN_SHARED __attribute__((aligned(16))) u8 shared_bytes[kSharedBytes];

KILN_DEVICE U32x4 ds_read_b128(u32 at) {
  U32x4 value;
  kiln_emu_ops->local_load(&value, shared_bytes + at, 16);
  return value;
}
KILN_DEVICE u32 ds_read_b32(u32 at) {
  u32 value;
  kiln_emu_ops->local_load(&value, shared_bytes + at, 4);
  return value;
}
KILN_DEVICE U32x2 ds_read_b64_tr_b16(u32 at) {
  U32x2 value;
  kiln_emu_ops->local_load_turned(&value, shared_bytes + at, 2);
  return value;
}
KILN_DEVICE U32x2 ds_read_b64_tr_b8(u32 at) {
  U32x2 value;
  kiln_emu_ops->local_load_turned(&value, shared_bytes + at, 1);
  return value;
}
KILN_DEVICE void ds_write_b128(u32 at, U32x4 value) {
  kiln_emu_ops->local_store(shared_bytes + at, &value, 16);
}
KILN_DEVICE void ds_write_b32(u32 at, u32 value) {
  kiln_emu_ops->local_store(shared_bytes + at, &value, 4);
}

using Buffer = I32x4;
/// Where the buffer's byte `offset` lies; null when it lies outside. A load across the end is one
/// that hardware of different kinds answers differently.
KILN_DEVICE const u8* kiln_emu_buffer(Buffer buffer, u32 offset, u32 bytes) {
  const u64 base = u64(u32(buffer[0])) | u64(u32(buffer[1])) << 32;
  const u32 size = u32(buffer[2]);
  if (offset >= size) return nullptr;
  if (size - offset < bytes) kiln_emu_ops->refuse("a load across the end of its buffer");
  return (const u8*)base + offset;
}
template <typename T>
KILN_DEVICE T kiln_emu_load(Buffer buffer, i32 offset, i32 more) {
  T value{};
  if (const u8* from = kiln_emu_buffer(buffer, u32(offset) + u32(more), sizeof(T)))
    __builtin_memcpy(&value, from, sizeof(T));
  kiln_emu_ops->count_load();
  return value;
}

KILN_DEVICE U32x4 kiln_load_x4(Buffer b, i32 offset, i32 more, i32) {
  return kiln_emu_load<U32x4>(b, offset, more);
}
KILN_DEVICE U32x2 kiln_load_x2(Buffer b, i32 offset, i32 more, i32) {
  return kiln_emu_load<U32x2>(b, offset, more);
}
KILN_DEVICE u32 kiln_load_x1(Buffer b, i32 offset, i32 more, i32) {
  return kiln_emu_load<u32>(b, offset, more);
}
KILN_DEVICE u16 kiln_load_u16(Buffer b, i32 offset, i32 more, i32) {
  return kiln_emu_load<u16>(b, offset, more);
}
KILN_DEVICE u8 kiln_load_u8(Buffer b, i32 offset, i32 more, i32) {
  return kiln_emu_load<u8>(b, offset, more);
}
template <int Bytes>
KILN_DEVICE void buffer_load_to_shared(u32 to, Buffer buffer, u32 offset) {
  kiln_emu_ops->load_to_shared(shared_bytes + to, kiln_emu_buffer(buffer, offset, Bytes), Bytes);
}
