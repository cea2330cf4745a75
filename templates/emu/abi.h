// The contract between a GPU kernel that was rendered for the emulator and the emulator: plain C,
// no headers, because this file is pasted into the rendered source too. A lane reaches everything
// that is not ordinary arithmetic on its own memory through KilnEmuOps. Addresses of shared memory
// are 32-bit: the block's rank in its cluster in bits 24 and up, below them the place in the block.
#pragma once

struct KilnEmuPoint {
  unsigned x, y, z;
};

/// What a lane knows of itself.
struct KilnEmuLane {
  KilnEmuPoint thread, block, threads, blocks;
};

/// A warpgroup's matrix instruction as one lane issues it.
struct KilnEmuWgmma {
  const char* name;      // as the assembler has it
  const char* operands;  // what follows the list of sums: descriptors, predicate, immediates
  void* sums;
  int count;  // of 32-bit registers
  unsigned long long left, right;
  int accumulate;
  const unsigned* left_words;  // the left operand, when it comes from registers; else null
};

/// A wave's matrix instruction as one lane issues it; operands and sums are the lane's registers.
struct KilnEmuMatrix {
  const char* name;
  const void *a, *b, *c;
  void* d;
  unsigned a_bytes, b_bytes, d_bytes;
  const int* immediates;  // what the instruction's text holds beside registers
  int immediate_count;
  unsigned scale_a, scale_b;
};

/// A warp's matrix instruction as one lane issues it; sums are added to in place.
struct KilnEmuMma {
  const char* name;  // as the assembler has it
  const void *a, *b;
  void* sums;
  unsigned a_bytes, b_bytes, sum_bytes;
};

enum KilnEmuMapField { kKilnEmuMapAddress, kKilnEmuMapElements, kKilnEmuMapStride };

enum KilnEmuFloat { kKilnEmuHalf, kKilnEmuBfloat, kKilnEmuE4m3, kKilnEmuE5m2 };

struct KilnEmuOps {
  const KilnEmuLane* (*lane)();

  unsigned char* (*dynamic_shared)();
  unsigned char* (*shared_variable)(int number, unsigned bytes);
  unsigned (*shared_address)(const void* pointer);
  void (*shared_load)(void* to, unsigned address, unsigned bytes);
  void (*shared_store)(unsigned address, const void* from, unsigned bytes);

  /// Counts this lane at barrier `id` of `threads` lanes (0: the whole block); `waits` until it
  /// opens.
  void (*barrier)(int id, int threads, int waits);
  void (*cluster_barrier)();
  unsigned (*cluster_rank)();
  void (*warp_barrier)();

  void (*mbarrier_init)(unsigned address, unsigned arrivals);
  void (*mbarrier_init_fence)();
  void (*mbarrier_arrive)(unsigned address, unsigned expected_bytes);
  void (*mbarrier_arrive_at)(unsigned address, unsigned rank);
  void (*mbarrier_wait)(unsigned address, unsigned parity);
  /// Bytes to the same address in block `rank`, some time later; they count at its `barrier`.
  void (*shared_send)(unsigned to, const void* from, unsigned bytes, unsigned barrier,
                      unsigned rank);

  /// A box of a tensor map whose first element is `at`; `mask` 0: no multicast.
  void (*tensor_load)(unsigned to, const void* map, unsigned barrier, const int* at, int rank,
                      unsigned mask);
  /// A field of a tensor map in shared memory: its address, the elements along a dimension, the
  /// bytes between steps of the dimension behind `dimension`.
  void (*tensor_map_set)(unsigned map, KilnEmuMapField field, int dimension,
                         unsigned long long value);
  /// By a warp: a copy of the map in memory, for lanes that acquire it.
  void (*tensor_map_release)(void* to, unsigned map);
  void (*tensor_map_acquire)(const void* map);
  void (*tensor_store)(const void* map, unsigned from, const int* at, int rank);
  void (*bulk_commit)();
  void (*bulk_wait)(int pending, int only_read);
  void (*async_fence)();

  void (*copy)(unsigned to, const void* from, int bytes, int valid);
  void (*copy_commit)();
  void (*copy_wait)(int pending);
  /// Arrives at an mbarrier when all copies of this lane have come.
  void (*copy_arrive)(unsigned barrier);

  void (*matrix_store)(unsigned address, const unsigned* registers, int count, int transposed);
  void (*matrix_load)(unsigned* registers, unsigned address, int count, int transposed);
  void (*shuffle)(unsigned* value, int kind, int argument);

  void (*wgmma_fence)();
  void (*wgmma)(const KilnEmuWgmma*);
  void (*wgmma_commit)();
  void (*wgmma_wait)(int pending);
  void (*matrix)(const KilnEmuMatrix*);
  void (*mma)(const KilnEmuMma*);

  void (*set_registers)(int count, int more);
  void (*grid_wait)();

  /// AMD: bytes from `from` (or zeros) to `to` + lane · bytes; counts, like other loads from
  /// memory, until wait_count allows no more than `loads` of them.
  void (*load_to_shared)(unsigned char* to, const void* from, int bytes);
  void (*count_load)();
  /// By pointer; what is stored, others see after a fence. The barrier alone orders nothing.
  void (*local_load)(void* to, const void* from, unsigned bytes);
  void (*local_store)(void* to, const void* from, unsigned bytes);
  /// The wave's matrices of `element` bytes, 16 lanes each, turned over: 8 bytes a lane.
  void (*local_load_turned)(void* to, const void* from, int element);
  void (*store_fence)();
  /// Before a store to memory that other blocks will read, or a load of what they stored.
  void (*before_shared_work)();
  void (*bare_barrier)();
  void (*wait_count)(int loads);
  unsigned (*first_lane)(unsigned value);

  unsigned (*from_float)(float value, int type);
  float (*to_float)(unsigned bits, int type);
  void (*refuse)(const char* sentence);
};
