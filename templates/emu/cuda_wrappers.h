// Stands in an emulated source for the headers of templates/cuda that end in _ptx.h and has all
// their names. Expects types.h, the parameters, emu/cuda_keywords.h.
#pragma once

// ---- conversions

KILN_DEVICE float kiln_emu_float(u32 bits, KilnEmuFloat type) {
  return kiln_emu_ops->to_float(bits, type);
}
KILN_DEVICE u32 kiln_emu_bits(float x, KilnEmuFloat type) {
  return kiln_emu_ops->from_float(x, type);
}
KILN_DEVICE float near_reciprocal(float x) { return 1 / x; }
KILN_DEVICE float near_exp2(float x) { return __builtin_exp2f(x); }
template <typename T>
KILN_DEVICE T load_at(const T* from) {
  return *from;
}
template <typename T>
KILN_DEVICE T load_if(const T* from, bool there) {
  return there ? *from : T(0);
}
KILN_DEVICE float half_to_float(u16 bits) { return kiln_emu_float(bits, kKilnEmuHalf); }
KILN_DEVICE u16 float_to_half(float x) { return u16(kiln_emu_bits(x, kKilnEmuHalf)); }
KILN_DEVICE u32 floats_to_halves(float low, float high) {
  return kiln_emu_bits(low, kKilnEmuHalf) | kiln_emu_bits(high, kKilnEmuHalf) << 16;
}
KILN_DEVICE i32 float_to_int(float x) {
  const float y = __builtin_rintf(x);
  return y >= 0x1p31f ? 0x7fffffff : y <= -0x1p31f ? i32(0x80000000u) : y == y ? i32(y) : 0;
}
KILN_DEVICE u16 float_to_bfloat(float x) { return u16(kiln_emu_bits(x, kKilnEmuBfloat)); }
KILN_DEVICE u32 floats_to_bfloats(float low, float high) {
  return kiln_emu_bits(low, kKilnEmuBfloat) | kiln_emu_bits(high, kKilnEmuBfloat) << 16;
}
KILN_DEVICE u32 e4m3_to_halves(u16 pair) {
  return floats_to_halves(kiln_emu_float(pair & 255, kKilnEmuE4m3),
                          kiln_emu_float(pair >> 8, kKilnEmuE4m3));
}
KILN_DEVICE u16 floats_to_e4m3(float low, float high) {
  return u16(kiln_emu_bits(low, kKilnEmuE4m3) | kiln_emu_bits(high, kKilnEmuE4m3) << 8);
}
KILN_DEVICE u16 floats_to_e5m2(float low, float high) {
  return u16(kiln_emu_bits(low, kKilnEmuE5m2) | kiln_emu_bits(high, kKilnEmuE5m2) << 8);
}

// ---- barriers and copies

KILN_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  kiln_emu_ops->mbarrier_init(barrier, arrivals);
}
KILN_DEVICE void mbarrier_init_fence() { kiln_emu_ops->mbarrier_init_fence(); }
KILN_DEVICE void mbarrier_expect(u32 barrier, u32 bytes) {
  kiln_emu_ops->mbarrier_arrive(barrier, bytes);
}
KILN_DEVICE void mbarrier_arrive_at(u32 barrier, u32 rank) {
  kiln_emu_ops->mbarrier_arrive_at(barrier, rank);
}
KILN_DEVICE void mbarrier_arrive(u32 barrier) { kiln_emu_ops->mbarrier_arrive(barrier, 0); }
KILN_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  kiln_emu_ops->mbarrier_wait(barrier, parity);
}
KILN_DEVICE void tensor_map_prefetch(const KilnTensorMap*) {}
KILN_DEVICE void tensor_map_set_address(u32 map, const void* address) {
  kiln_emu_ops->tensor_map_set(map, kKilnEmuMapAddress, 0, reinterpret_cast<u64>(address));
}
template <int Dimension>
KILN_DEVICE void tensor_map_set_elements(u32 map, u32 elements) {
  kiln_emu_ops->tensor_map_set(map, kKilnEmuMapElements, Dimension, elements);
}
KILN_DEVICE void tensor_map_set_pitch(u32 map, u64 bytes) {
  kiln_emu_ops->tensor_map_set(map, kKilnEmuMapStride, 0, bytes);
}
KILN_DEVICE void tensor_map_set_apart(u32 map, u64 bytes) {
  kiln_emu_ops->tensor_map_set(map, kKilnEmuMapStride, 1, bytes);
}
KILN_DEVICE void tensor_map_release(KilnTensorMap* to, u32 map) {
  kiln_emu_ops->tensor_map_release(to, map);
}
KILN_DEVICE void tensor_map_acquire(const KilnTensorMap* map) {
  kiln_emu_ops->tensor_map_acquire(map);
}
KILN_DEVICE void tma_load_3d(u32 to, const KilnTensorMap* map, u32 barrier, int x, int y, int z,
                             u64) {
  const int at[] = {x, y, z};
  kiln_emu_ops->tensor_load(to, map, barrier, at, 3, 0);
}
KILN_DEVICE void tma_load_multicast_3d(u32 to, const KilnTensorMap* map, u32 barrier, int x, int y,
                                       int z, u16 mask, u64) {
  const int at[] = {x, y, z};
  kiln_emu_ops->tensor_load(to, map, barrier, at, 3, mask);
}
KILN_DEVICE void tma_store_3d(const KilnTensorMap* map, u32 from, int x, int y, int z) {
  const int at[] = {x, y, z};
  kiln_emu_ops->tensor_store(map, from, at, 3);
}
KILN_DEVICE void tma_store_commit() { kiln_emu_ops->bulk_commit(); }
template <int Pending>
KILN_DEVICE void tma_store_wait_read() {
  kiln_emu_ops->bulk_wait(Pending, 1);
}
KILN_DEVICE void tma_store_wait() { kiln_emu_ops->bulk_wait(0, 0); }
KILN_DEVICE void fence_async_shared() { kiln_emu_ops->async_fence(); }
KILN_DEVICE void named_barrier_sync(int id, int threads) { kiln_emu_ops->barrier(id, threads, 1); }
KILN_DEVICE void named_barrier_arrive(int id, int threads) {
  kiln_emu_ops->barrier(id, threads, 0);
}
KILN_DEVICE u32 cluster_rank() { return kiln_emu_ops->cluster_rank(); }
KILN_DEVICE void cluster_sync() { kiln_emu_ops->cluster_barrier(); }
KILN_DEVICE void wait_for_previous_grid() { kiln_emu_ops->grid_wait(); }
KILN_DEVICE void let_next_grid_start() {}

template <int Count>
KILN_DEVICE void give_registers() {
  kiln_emu_ops->set_registers(Count, 0);
}
template <int Count>
KILN_DEVICE void take_registers() {
  kiln_emu_ops->set_registers(Count, 1);
}

// ---- shared memory

KILN_DEVICE u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }

KILN_DEVICE void keep_in_register(float&) {}
template <typename Sum, int Held, int Subtiles, int Sums>
KILN_DEVICE void take_sums(Sum (&some)[Held], const Sum (&sums)[Subtiles][Sums], int turn) {
  constexpr int kOfSubtile = Sums / Held;
  for (int e = 0; e < Held; ++e) some[e] = sums[turn / kOfSubtile][turn % kOfSubtile * Held + e];
}
KILN_DEVICE void stmatrix_x4(u32 to, u32 r0, u32 r1, u32 r2, u32 r3) {
  const u32 r[] = {r0, r1, r2, r3};
  kiln_emu_ops->matrix_store(to, r, 4, 0);
}
KILN_DEVICE void stmatrix_x2(u32 to, u32 r0, u32 r1) {
  const u32 r[] = {r0, r1};
  kiln_emu_ops->matrix_store(to, r, 2, 0);
}
KILN_DEVICE void stmatrix_x4_trans(u32 to, u32 r0, u32 r1, u32 r2, u32 r3) {
  const u32 r[] = {r0, r1, r2, r3};
  kiln_emu_ops->matrix_store(to, r, 4, 1);
}
KILN_DEVICE void stmatrix_x2_trans(u32 to, u32 r0, u32 r1) {
  const u32 r[] = {r0, r1};
  kiln_emu_ops->matrix_store(to, r, 2, 1);
}
KILN_DEVICE u16 load_shared_half(u32 from) {
  u16 x;
  kiln_emu_ops->shared_load(&x, from, 2);
  return x;
}
KILN_DEVICE void load_shared(u16& x, u32 from) { kiln_emu_ops->shared_load(&x, from, sizeof(x)); }
KILN_DEVICE void load_shared(u32& x, u32 from) { kiln_emu_ops->shared_load(&x, from, sizeof(x)); }
KILN_DEVICE void load_shared(u64& x, u32 from) { kiln_emu_ops->shared_load(&x, from, sizeof(x)); }
KILN_DEVICE void store_shared_word(u32 to, u32 value) { kiln_emu_ops->shared_store(to, &value, 4); }
KILN_DEVICE void prefetch_line(const void*) {}
KILN_DEVICE void store_shared_pair(u32 to, u32 low, u32 high) {
  const u32 pair[] = {low, high};
  kiln_emu_ops->shared_store(to, pair, 8);
}
KILN_DEVICE void store_shared_one(u32 to, u32 x) { kiln_emu_ops->shared_store(to, &x, 4); }
KILN_DEVICE u32 load_shared_word(u32 from) {
  u32 value;
  kiln_emu_ops->shared_load(&value, from, 4);
  return value;
}

KILN_DEVICE void read_four_scales(float (&r)[4], const float* from) {
  for (int i = 0; i < 4; ++i) r[i] = from[i];
}
KILN_DEVICE void store_shared_code(u32 to, u32 code) { kiln_emu_ops->shared_store(to, &code, 1); }
KILN_DEVICE void store_shared_codes(u32 to, u32 codes) {
  kiln_emu_ops->shared_store(to, &codes, 2);
}
KILN_DEVICE void store_largest(u32 to, float x) { kiln_emu_ops->shared_store(to, &x, 4); }
KILN_DEVICE float load_largest(u32 from) {
  float x;
  kiln_emu_ops->shared_load(&x, from, 4);
  return x;
}
KILN_DEVICE void send_largest(u32 to, float x, u32 barrier, u32 rank) {
  kiln_emu_ops->shared_send(to, &x, 4, barrier, rank);
}
KILN_DEVICE void store_scale(u32 to, float scale) { kiln_emu_ops->shared_store(to, &scale, 4); }
KILN_DEVICE float load_scale(u32 from) {
  float scale;
  kiln_emu_ops->shared_load(&scale, from, 4);
  return scale;
}
template <int Scales>
KILN_DEVICE void load_scales(float (&r)[Scales], u32 from) {
  kiln_emu_ops->shared_load(r, from, sizeof(r));
}

KILN_DEVICE void ldmatrix_x4(u32 (&r)[4], u32 from) { kiln_emu_ops->matrix_load(r, from, 4, 0); }
KILN_DEVICE void ldmatrix_x4_trans(u32 (&r)[4], u32 from) {
  kiln_emu_ops->matrix_load(r, from, 4, 1);
}
KILN_DEVICE void load_shared_words(u32 (&r)[4], u32 from) {
  kiln_emu_ops->shared_load(r, from, 16);
}
template <typename T>
KILN_DEVICE void load_shared_one(T& r, u32 from) {
  kiln_emu_ops->shared_load(&r, from, sizeof(T));
}
template <typename T>
KILN_DEVICE void load_shared_two(T (&r)[2], u32 from) {
  kiln_emu_ops->shared_load(r, from, sizeof(r));
}
KILN_DEVICE void store_shared_words(u32 to, const u32 (&r)[4]) {
  kiln_emu_ops->shared_store(to, r, 16);
}

// ---- copies that a warp does not wait for

KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  kiln_emu_ops->copy(to, from, 16, valid);
}
KILN_DEVICE void cp_async_8(u32 to, const void* from, int valid) {
  kiln_emu_ops->copy(to, from, 8, valid);
}
KILN_DEVICE void cp_async_4(u32 to, const void* from, int valid) {
  kiln_emu_ops->copy(to, from, 4, valid);
}
KILN_DEVICE void cp_async_commit() { kiln_emu_ops->copy_commit(); }
template <int Pending>
KILN_DEVICE void cp_async_wait() {
  kiln_emu_ops->copy_wait(Pending);
}
KILN_DEVICE void cp_async_arrive(u32 barrier) { kiln_emu_ops->copy_arrive(barrier); }

// ---- memory

KILN_DEVICE void store_pair(Acc* to, const Acc* from) {
  kiln_emu_ops->before_shared_work();
  for (int i = 0; i < 2; ++i) to[i] = from[i];
}
KILN_DEVICE void load_pair(Acc (&to)[2], const Acc* from) {
  for (int i = 0; i < 2; ++i) to[i] = from[i];
}
KILN_DEVICE void store_four(Acc* to, const Acc* from) {
  kiln_emu_ops->before_shared_work();
  for (int i = 0; i < 4; ++i) to[i] = from[i];
}
KILN_DEVICE void load_four(Acc (&to)[4], const Acc* from) {
  kiln_emu_ops->before_shared_work();
  for (int i = 0; i < 4; ++i) to[i] = from[i];
}
template <typename T>
KILN_DEVICE void store_past_l1(T* to, T x) {
  kiln_emu_ops->before_shared_work();
  *to = x;
}
template <typename T>
KILN_DEVICE void load_past_l1(T& x, const T* from) {
  x = *from;
}
template <int Words>
KILN_DEVICE void load_streamed(u32 (&to)[Words], const void* from) {
  kiln_emu_ops->before_shared_work();
  for (int i = 0; i < Words; ++i) to[i] = static_cast<const u32*>(from)[i];
}
KILN_DEVICE u32 count_arrival(u32* counter) {
  return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
}

// ---- products of a warp

/// To nearest, ties away from zero; what is not finite stays as it is.
KILN_DEVICE u32 round_to_tf32(u32 x) {
  return (x & 0x7f800000) == 0x7f800000 ? x : (x + 0x1000) & ~0x1fffu;
}
#ifdef KILN_MMA_NAME
KILN_DEVICE void mma_sync(Acc* sums, const Fragment* a, const Fragment* b) {
  const KilnEmuMma m{
      KILN_MMA_NAME,         a, b, sums, kMmaA * sizeof(Fragment), kMmaB * sizeof(Fragment),
      kMmaSums * sizeof(Acc)};
  kiln_emu_ops->mma(&m);
}
#endif

#if defined(KILN_MMA_NAME) || defined(KILN_WGMMA_NAME)
KILN_DEVICE u32 masked_bits(u32 x, u32 mask, u32 bits) { return (x & mask) ^ bits; }
KILN_DEVICE u32 signs_of_halves(u32 x) {
  return (x & 0x8000 ? 0xffff : 0) | (x & 0x80000000 ? 0xffff0000 : 0);
}
/// The two small floats of a register are of A's type.
template <typename T>
KILN_DEVICE KilnEmuFloat kiln_emu_pair(T) {
  return kKilnEmuHalf;
}
KILN_DEVICE KilnEmuFloat kiln_emu_pair(Bfloat) { return kKilnEmuBfloat; }
KILN_DEVICE u32 fma_pairs(u32 x, u32 y, u32 z) {
  const KilnEmuFloat type = kiln_emu_pair(TypeA{});
  u32 r = 0;
  // A double holds the exact result of such small numbers.
  for (int half = 0; half < 32; half += 16)
    r |= kiln_emu_bits(float(double(kiln_emu_float(x >> half & 0xffff, type)) *
                                 kiln_emu_float(y >> half & 0xffff, type) +
                             kiln_emu_float(z >> half & 0xffff, type)),
                       type)
         << half;
  return r;
}
#endif

// ---- warpgroup products

KILN_DEVICE void wgmma_fence() { kiln_emu_ops->wgmma_fence(); }
KILN_DEVICE void wgmma_commit() { kiln_emu_ops->wgmma_commit(); }
template <int Pending>
KILN_DEVICE void wgmma_wait() {
  kiln_emu_ops->wgmma_wait(Pending);
}
KILN_DEVICE void compiler_barrier() {}
KILN_DEVICE void pin(Acc&) {}
KILN_DEVICE void pin_word(u32&) {}
KILN_DEVICE void forget(int&) {}
#ifdef KILN_WGMMA_NAME
template <int Sums>
KILN_DEVICE void wgmma_m64(Acc (&sums)[Sums], u64 left, u64 right, int accumulate) {
  const KilnEmuWgmma w{KILN_WGMMA_NAME, KILN_WGMMA_OPERANDS, sums, Sums, left,
                       right,           accumulate,          0};
  kiln_emu_ops->wgmma(&w);
}
template <int Sums>
KILN_DEVICE void wgmma_m64(Acc (&sums)[Sums], const u32 (&left)[4], u64 right, int accumulate) {
  const KilnEmuWgmma w{KILN_WGMMA_NAME, KILN_WGMMA_OPERANDS, sums, Sums, 0,
                       right,           accumulate,          left};
  kiln_emu_ops->wgmma(&w);
}
#endif
