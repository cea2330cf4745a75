//% if shifted
// A warp reads the words of its rows, and what stands before and behind them one element a lane.
// The thin operand lies in shared memory so that its words hold the same k as theirs. Expects
// words.h, grid_ptx.h.

static_assert(kPanel % (32 * kAhead) == 0, "a panel is a whole number of turns");

/// Lays out `words` words of each of `rows` thin rows, the first of which begins at `k0`. Several
/// words of a lane are on their way together; lanes that have none left repeat the last.
KILN_DEVICE void lay_out(uint4 (&panel)[kThin][kPanel], const Thin& thin, int rows, i64 k0,
                         int words) {
  constexpr int kTogether = kEach < 16 ? 4 : 2;
  const int lane = int(threadIdx.x) & 31, parts = int(ceil_div(words, 32)) * rows;
  for (int i = int(threadIdx.x) / 32; i < parts; i += kWarps * kTogether) {
    Word<TypeThin> some[kTogether];
    int t[kTogether], place[kTogether];
    _Pragma("unroll") for (int j = 0; j < kTogether; ++j) {
      const int part = min(i + j * kWarps, parts - 1);
      t[j] = part % rows;
      place[j] = min(part / rows * 32 + lane, words - 1);
      _Pragma("unroll") for (int e = 0; e < kEach; ++e)
        some[j].x[e] = thin.at(t[j], k0 + place[j] * kEach + e);
    }
    _Pragma("unroll") for (int j = 0; j < kTogether; ++j)
      panel[t[j]][place[j]] = reinterpret_cast<const uint4&>(some[j]);
  }
}

/// Sums of thin rows that are not there are those of the first.
KILN_DEVICE void multiply(Acc (&sums)[kRows][kThin], const uint4 (&words)[kRows],
                          const uint4 (&panel)[kThin][kPanel], int rows, int place) {
  Acc right[kRows][kEach];
  _Pragma("unroll") for (int r = 0; r < kRows; ++r)
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) right[r][e] = element<TypeWide>(words[r], e);
  _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
    const uint4 word = panel[t < rows ? t : 0][place];
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
      const Acc left = element<TypeThin>(word, e);
      _Pragma("unroll") for (int r = 0; r < kRows; ++r) sums[r][t] += left * right[r][e];
    }
  }
}

static __device__ constexpr int next_power_of_two(int x) {
  int power = 1;
  while (power < x) power *= 2;
  return power;
}
constexpr int kSums = kRows * kThin;
constexpr int kHeap = next_power_of_two(kSums);

/// Adds up the first `Count` over the warp: lanes that differ in a bit share them out, half each,
/// until a lane has one left, or one for every 32. Returns which it begins with.
template <int Count, int Step>
KILN_DEVICE int add_up(Acc (&heap)[kHeap]) {
  if constexpr (Step == 0) {
    return 0;
  } else if constexpr (Count == 1) {
    heap[0] += __shfl_xor_sync(0xffffffff, heap[0], Step);
    return add_up<1, Step / 2>(heap);
  } else {
    constexpr int kHalf = Count / 2;
    const bool upper = (int(threadIdx.x) & Step) != 0;
    _Pragma("unroll") for (int i = 0; i < kHalf; ++i) {
      const Acc theirs = upper ? heap[i] : heap[i + kHalf];
      const Acc mine = upper ? heap[i + kHalf] : heap[i];
      heap[i] = mine + __shfl_xor_sync(0xffffffff, theirs, Step);
    }
    return (upper ? kHalf : 0) + add_up<kHalf, Step / 2>(heap);
  }
}

extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  __shared__ uint4 panel[kThin][kPanel];
  const int lane = int(threadIdx.x) & 31;
  const i64 wide_rows = kSwap ? args.m : args.n;
  const u32 blocks = gridDim.x / u32(args.batch), batch = blockIdx.x / blocks;
  const u32 block = blockIdx.x - batch * blocks;
  const i64 row0 =
      block % kEach + (i64(block / kEach) * kWarps + threadIdx.x / 32) * (kRows * kEach);
  const i64 wide_ld = kSwap ? args.lda : args.ldb;
  const auto* wide = static_cast<const TypeWide*>(kSwap ? args.a : args.b) +
                     batch * (kSwap ? args.stride_a : args.stride_b) + row0 * wide_ld;
  const Thin thin{static_cast<const TypeThin*>(kSwap ? args.b : args.a) +
                      batch * (kSwap ? args.stride_b : args.stride_a),
                  kSwap ? args.ldb : args.lda};

  // The same for all rows of the block: elements before the first whole word, words, elements left.
  const int thin_count = thin_rows(args);
  const int begin = int(reinterpret_cast<u64>(wide) & 15) / int(sizeof(TypeWide));
  const int head = int(min(i64((kEach - begin) % kEach), args.k));
  const int words = int((args.k - head) / kEach);
  const int tail = int(args.k - head - i64(words) * kEach);
  // Rows that are not there are read as copies of the warp's first; nothing, if that one is not.
  const TypeWide* rows[kRows];
  _Pragma("unroll") for (int r = 0; r < kRows; ++r)
    rows[r] = wide + (row0 + r * kEach < wide_rows ? r * kEach * wide_ld : 0);
  const int end = row0 < wide_rows ? words : 0;
  const auto read = [&](int r, int at) {
    return at < end ? reinterpret_cast<const uint4*>(rows[r] + head)[at] : uint4{};
  };
  //% if overlaps
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
  uint4 ahead[kAhead][kRows];
  _Pragma("unroll") for (int a = 0; a < kAhead; ++a)
    _Pragma("unroll") for (int r = 0; r < kRows; ++r) ahead[a][r] = read(r, a * 32 + lane);
  TypeWide wide_ends[kRows] = {};
  TypeThin thin_ends[kThin] = {};
  if (lane < head + tail && row0 < wide_rows) {
    const i64 k = lane < head ? i64(lane) : lane + i64(words) * kEach;
    _Pragma("unroll") for (int r = 0; r < kRows; ++r) wide_ends[r] = rows[r][k];
    _Pragma("unroll") for (int t = 0; t < kThin; ++t)
      thin_ends[t] = thin.at(t < thin_count ? t : 0, k);
  }
  lay_out(panel, thin, thin_count, head, min(words, kPanel));
  Acc sums[kRows][kThin];
  _Pragma("unroll") for (int r = 0; r < kRows; ++r)
    _Pragma("unroll") for (int t = 0; t < kThin; ++t)
      sums[r][t] = widened(wide_ends[r]) * widened(thin_ends[t]);
  __syncthreads();
  for (int word0 = 0;;) {
    const int here = min(words - word0, kPanel);
    for (int i = lane; i < here + lane; i += 32 * kAhead) {
      _Pragma("unroll") for (int a = 0; a < kAhead; ++a)
        if (word0 + i + a * 32 < end) multiply(sums, ahead[a], panel, thin_count, i + a * 32);
      // Fetched when all before are used: the hardware waits for the youngest load with the oldest.
      const int next = word0 + i + 32 * kAhead;
      if (next - lane < end)
        _Pragma("unroll") for (int a = 0; a < kAhead; ++a)
          _Pragma("unroll") for (int r = 0; r < kRows; ++r) ahead[a][r] = read(r, next + a * 32);
    }
    word0 += kPanel;
    if (word0 >= words) break;
    __syncthreads();
    lay_out(panel, thin, thin_count, head + i64(word0) * kEach, min(words - word0, kPanel));
    __syncthreads();
  }

  Acc heap[kHeap] = {};
  _Pragma("unroll") for (int i = 0; i < kSums; ++i) heap[i] = sums[i / kThin][i % kThin];
  const int first = add_up<kHeap, 16>(heap);
  // Of lanes that have the same sums, the first stores.
  if (kHeap < 32 && lane % (32 / kHeap) != 0) return;
  const Output out = output_of(args, batch);
  _Pragma("unroll") for (int i = 0; i < (kHeap + 31) / 32; ++i) {
    const int t = (first + i) % kThin, r = (first + i) / kThin;
    const i64 row = row0 + r * kEach;
    if (r < kRows && t < thin_count && row < wide_rows)
      store_one(out, heap[i], kSwap ? row : t, kSwap ? t : row);
  }
}
//% end
