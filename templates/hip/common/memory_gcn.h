// Memory instructions, one wrapper each: shared memory by byte offset, buffer loads. Expects
// types.h, and kSharedBytes from the parameters.
#pragma once

/// The compiler moves no access of memory across.
KILN_DEVICE void compiler_barrier() { asm volatile("" ::: "memory"); }

KILN_SHARED __attribute__((aligned(16))) u8 shared_bytes[kSharedBytes];

KILN_DEVICE U32x4 ds_read_b128(u32 at) { return *(const U32x4*)(shared_bytes + at); }
KILN_DEVICE void ds_write_b128(u32 at, U32x4 value) { *(U32x4*)(shared_bytes + at) = value; }
//% if split
KILN_DEVICE u32 ds_read_b32(u32 at) { return *(const u32*)(shared_bytes + at); }
KILN_DEVICE void ds_write_b32(u32 at, u32 value) { *(u32*)(shared_bytes + at) = value; }
//% end

/// A piece of memory with its length: the four words that buffer instructions take.
using Buffer = I32x4;

// The compilers know these instructions by name longer than they have builtins for them.
extern "C" {
__attribute__((device))
U32x4 kiln_load_x4(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
__attribute__((device))
U32x2 kiln_load_x2(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.v2i32");
__attribute__((device))
u32 kiln_load_x1(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.i32");
__attribute__((device))
u16 kiln_load_u16(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.i16");
__attribute__((device))
u8 kiln_load_u8(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.i8");
//% if direct
__attribute__((device)) void kiln_load_lds(Buffer, __attribute__((address_space(3))) void*, i32,
                                           i32, i32, i32,
                                           i32) __asm("llvm.amdgcn.raw.buffer.load.lds");
//% end
}

//% if direct
/// `Bytes` bytes at byte `offset` straight into shared memory: lane l's bytes go to `to` + l ·
/// Bytes, where `to` is the same in all lanes. Done when wait_for_loads() returns.
template <int Bytes>
KILN_DEVICE void buffer_load_to_shared(u32 to, Buffer buffer, u32 offset) {
  kiln_load_lds(buffer, (__attribute__((address_space(3))) void*)(shared_bytes + to), Bytes,
                i32(offset), 0, 0, 0);
}
//% end
