// Few rows of A times weights of four or eight bits that are k-major: vectors run along k, codes
// become numbers in registers, and a tile of kMr × kNr accumulators is reduced across its lanes at
// the end. A vector of B holds kChunk codes, those of a lane side by side; slice j is the j-th code
// of every lane, and A's elements are arranged the same way first. The sum of a chunk is scaled,
// then added. Expects abi.h, vector.h, epilogue.h, share.h, lanes.h and the parameters.

/// Codes in one element of the vectors that slices are taken from.
constexpr int kSlices = 8 * int(sizeof(Unit)) / kGroup / kCodeBits;
constexpr int kChunk = kLanes * kGroup * kSlices;
//% if several_groups
constexpr int kGroupsOfChunk = kChunk / kGroupK;
//% else
constexpr int kGroupsOfChunk = 1;
//% end

// --- codes to numbers
// ------------------------------------------------------------------------------

//% if kind == bf16
using Codes = Vec<u16, kLanes * 2>;

//% if codes == e2m1
constexpr u16 bfloat_of(float value) { return u16(__builtin_bit_cast(u32, value) >> 16); }
constexpr float code_value(int code) { return e2m1_number(code); }
//% else
constexpr u16 bfloat_of(int value) { return u16(__builtin_bit_cast(u32, float(value)) >> 16); }
constexpr int code_value(int code) { return kSignedCodes ? (code ^ 8) - 8 : code; }
//% end

/// Of each zero point the numbers of all codes, twice: an index has five bits, a code four.
struct Tables {
  alignas(64) u16 of[16][32];
  constexpr Tables() : of() {
    for (int zero = 0; zero < 16; ++zero)
      for (int i = 0; i < 32; ++i) of[zero][i] = bfloat_of(code_value(i & 15) - code_value(zero));
  }
};
static constexpr Tables kTables;

/// Slice J of a chunk.
template <int J>
KILN_INLINE UnitVec slice(Codes codes, Vec<u16, 32> table) {
  using Words = Vec<short, 32>;
  return bits_of<UnitVec>(
      __builtin_ia32_permvarhi512(bits_of<Words>(table), bits_of<Words>(codes >> (J * kCodeBits))));
}
//% else
//% if signed_codes || codes == e4m3
using Codes = Vec<i32, kLanes>;
//% else
using Codes = Vec<u32, kLanes>;
//% end

//% if codes == e4m3
/// Slice J of a chunk, but for its NaNs.
template <int J>
KILN_INLINE UnitVec slice(Codes codes) {
  return e4m3_to_float<kLanes, false>(codes << (24 - J * kCodeBits));
}
/// `scale`, or NaN in a lane that has a NaN's code: all its products are added and scaled.
KILN_INLINE AccVec with_nans(AccVec scale, Codes codes) {
  const Vec<u32, kLanes> next = (bits_of<Vec<u32, kLanes>>(codes) & 0x7f7f7f7fu) + 0x01010101u;
  return (next & 0x80808080u) != 0 ? AccVec(__builtin_nanf("")) : scale;
}
//% end
//% if table
template <int... I>
KILN_INLINE AccVec numbers_of_codes(Sequence<int, I...>) {
  //% if codes == e2m1
  return AccVec{e2m1_number(I)...};
  //% end
  //% if codes == integer && signed_codes
  return AccVec{float((I ^ 8) - 8)...};
  //% end
  //% if codes == integer && !signed_codes
  return AccVec{float(I)...};
  //% end
}

/// Slice J of a chunk; an index has four bits.
template <int J>
KILN_INLINE UnitVec slice(Codes codes, AccVec table) {
  return __builtin_ia32_permvarsf512(table, bits_of<Vec<int, kLanes>>(codes >> (J * kCodeBits)));
}
//% end
//% if !table && codes == e2m1
/// Slice J of a chunk.
template <int J>
KILN_INLINE UnitVec slice(Codes codes) {
  return e2m1_to_float<kLanes>(codes << (28 - J * kCodeBits));
}
//% end
//% if !table && codes == integer
/// Slice J of a chunk: the shift to the right extends the sign where the codes have one.
template <int J>
KILN_INLINE UnitVec slice(Codes codes) {
  const Codes wide = (codes << (32 - kCodeBits * (J + 1))) >> (32 - kCodeBits);
  return __builtin_convertvector(bits_of<Vec<i32, kLanes>>(wide), UnitVec);
}
//% end
//% end

// --- scales and zero points
// ------------------------------------------------------------------------

/// Groups of a column, whole chunks and vectors of them.
KILN_INLINE i64 groups_of(i64 k) {
  //% if whole_column
  return 1;
  //% else
  return k / kGroupK;
  //% end
}
KILN_INLINE i64 padded_groups(i64 k) {
  return round_up(round_up(groups_of(k), kGroupsOfChunk), kLanes);
}

/// `groups` numbers of any type as fp32, zeros behind them.
template <typename T>
static void read_numbers(float* to, const T* from, i64 groups, i64 padded) {
  for (i64 g = 0; g < padded; g += kLanes)
    store(to + g, load_real<kLanes>(from + g, int(g < groups ? smaller(groups - g, kLanes) : 0)));
}

//% if zeros
//% if integer_zeros && code_bits == 4
/// Zero points of four bits, of which `first` is the first.
static void read_zeros(float* to, const void* zeros, i64 first, i64 groups, i64 padded) {
  const u8* bytes = static_cast<const u8*>(zeros);
  for (i64 g = 0; g < groups; ++g) {
    const i64 at = first + g;
    const int code = bytes[at / 2] >> (at % 2 * 4) & 15;
    //% if signed_codes
    to[g] = float((code ^ 8) - 8);
    //% else
    to[g] = float(code);
    //% end
  }
  for (i64 g = groups; g < padded; ++g) to[g] = 0;
}
//% else
static void read_zeros(float* to, const void* zeros, i64 first, i64 groups, i64 padded) {
  read_numbers(to, static_cast<const TypeZero*>(zeros) + first, groups, padded);
}
//% end
//% end

template <typename V, int... I>
KILN_INLINE AccVec spread(V few, Sequence<int, I...>) {
  return __builtin_shufflevector(few, few, (I * kGroupsOfChunk / kLanes)...);
}
/// The numbers of a chunk's groups, one a lane.
KILN_INLINE AccVec of_chunk(const float* numbers, i64 chunk) {
  //% if several_groups
  return spread(load<Vec<float, kGroupsOfChunk>>(numbers + chunk * kGroupsOfChunk), Iota<kLanes>{});
  //% end
  //% if whole_column
  return AccVec(numbers[0]);
  //% end
  //% if !several_groups && !whole_column
  return AccVec(numbers[chunk / (kGroupK / kChunk)]);
  //% end
}

/// What a tile reads of one column.
struct Column {
  const u8* codes;
  const float* scales;
  //% if zeros
  const float* zeros;
  //% end
};

// --- A
// ---------------------------------------------------------------------------------------------

KILN_INLINE i64 chunks_of(i64 k) { return (k + kChunk - 1) / kChunk; }

template <int J, typename V, int... I>
KILN_INLINE auto every(V all, Sequence<int, I...>) {
  return __builtin_shufflevector(all, all, (I * kSlices + J)...);
}
/// The slices of a chunk of A, a vector of another row apart.
template <int J = 0>
KILN_INLINE void arrange(UnitVec* to, Vec<Raw<TypeA>, kChunk> all) {
  to[J * kMr] = units_along<kLanes, TypeA>(every<J>(all, Iota<kLanes * kGroup>{}));
  if constexpr (J + 1 < kSlices) arrange<J + 1>(to, all);
}

KILN_INLINE Vec<Raw<TypeA>, kChunk> chunk_of_a(const TypeA* from, i64 ld, i64 count) {
  //% if a_k_major
  (void)ld;
  return load_first<kChunk>(reinterpret_cast<const Raw<TypeA>*>(from), int(smaller(count, kChunk)));
  //% else
  Raw<TypeA> raw[kChunk] = {};
  for (i64 i = 0; i < smaller(count, kChunk); ++i) raw[i] = from[i * ld].bits;
  return load<Vec<Raw<TypeA>, kChunk>>(raw);
  //% end
}

/// All rows as [rows / kMr][chunks][kSlices][kMr] vectors, zeros beyond m and k.
static void arrange_rows(UnitVec* to, const KilnArgs& args) {
  const i64 chunks = chunks_of(args.k);
  for (i64 row = 0; row < round_up(args.m, kMr); ++row) {
    UnitVec* at = to + row / kMr * kMr * chunks * kSlices + row % kMr;
    for (i64 chunk = 0; chunk < chunks; ++chunk, at += kSlices * kMr) {
      const i64 k = chunk * kChunk;
      //% if a_k_major
      const TypeA* from = static_cast<const TypeA*>(args.a) + row * args.lda + k;
      //% else
      const TypeA* from = static_cast<const TypeA*>(args.a) + k * args.lda + row;
      //% end
      arrange(at, row < args.m ? chunk_of_a(from, args.lda, args.k - k)
                               : Vec<Raw<TypeA>, kChunk>(Raw<TypeA>(0)));
    }
  }
}

// --- the tile
// --------------------------------------------------------------------------------------

/// Products of slice J and those after it, added to `part`.
template <int J = 0, typename... Table>
KILN_INLINE void add_slices(AccVec (&part)[kMr], const UnitVec* a, Codes codes, AccVec zero,
                            Table... table) {
  UnitVec b = slice<J>(codes, table...);
  //% if subtract
  b -= zero;
  //% end
  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) part[i] = dot(part[i], a[J * kMr + i], b);
  if constexpr (J + 1 < kSlices) add_slices<J + 1>(part, a, codes, zero, table...);
}

//% if gate
// A tile holds both factors of its elements of D.
constexpr int kColumns = kNr / 2, kFinishLanes = lanes_for(kColumns);

//% end
/// kMr rows of A, arranged, by kNr columns; missing columns repeat the last one.
__attribute__((noinline)) static void tile(const UnitVec* a, const Column (&columns_of_b)[kNr],
                                           i64 pitch, i64 k, const Output& where, i64 row,
                                           i64 column, int rows, int columns) {
  const Output out = where;  // a copy that stores to D cannot alias
  AccVec acc[kMr][kNr];
  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) {
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) acc[i][j] = AccVec(Acc(0));
  }
  Column from[kNr];
  KILN_UNROLL
  for (int j = 0; j < kNr; ++j) from[j] = columns_of_b[j];

  auto step = [&](i64 chunk, auto codes_at) __attribute__((always_inline)) {
    const UnitVec* of_a = a + chunk * kSlices * kMr;
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) {
      const Codes codes = bits_of<Codes>(codes_at(from[j].codes + chunk * kVectorBytes));
      AccVec part[kMr];
      KILN_UNROLL
      for (int i = 0; i < kMr; ++i) part[i] = AccVec(Acc(0));
      //% if zeros && kind == f32
      const AccVec zero = of_chunk(from[j].zeros, chunk);
      //% else
      const AccVec zero = AccVec(Acc(0));
      //% end
      //% if kind == bf16
      //% if zeros
      const int of_zero = int(of_chunk(from[j].zeros, chunk)[0]) & 15;
      //% else
      const int of_zero = 0;
      //% end
      add_slices(part, of_a, codes, zero, load<Vec<u16, 32>>(kTables.of[of_zero]));
      //% end
      //% if kind == f32 && table
      //% if subtract
      add_slices(part, of_a, codes, zero, numbers_of_codes(Iota<kLanes>{}));
      //% else
      add_slices(part, of_a, codes, zero, numbers_of_codes(Iota<kLanes>{}) - zero);
      //% end
      //% end
      //% if kind == f32 && !table
      add_slices(part, of_a, codes, zero);
      //% end
      //% if codes == e4m3
      const AccVec scale = with_nans(of_chunk(from[j].scales, chunk), codes);
      //% else
      const AccVec scale = of_chunk(from[j].scales, chunk);
      //% end
      KILN_UNROLL
      for (int i = 0; i < kMr; ++i) acc[i][j] = fused(part[i], scale, acc[i][j]);
    }
  };
  using Bytes = Vec<u8, kVectorBytes>;
  const i64 whole = k / kChunk;
#pragma clang loop unroll(disable) vectorize(disable)
  for (i64 chunk = 0; chunk < whole; ++chunk) {
    //% if ahead && stacked
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j)
      __builtin_prefetch(from[j].codes + kColumns * pitch + chunk * kVectorBytes);
    //% end
    //% if ahead && !stacked
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j)
      __builtin_prefetch(from[j].codes + kNr * pitch + chunk * kVectorBytes);
    //% end
    step(chunk, [](const u8* at) { return load<Bytes>(at); });
  }
  if (k % kChunk)
    step(whole, [&](const u8* at) {
      return load_first<kVectorBytes>(at, int((k % kChunk * kCodeBits + 7) / 8));
    });
  (void)pitch;

  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) {
    if (i >= rows) break;
    //% if stacked
    constexpr int kApart = kColumns;
    //% end
    //% if interleaved
    constexpr int kApart = kFinishLanes;
    //% end
    //% if gate
    Vec<Acc, kFinishLanes> both[2] = {Vec<Acc, kFinishLanes>(Acc(0)),
                                      Vec<Acc, kFinishLanes>(Acc(0))};
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) both[j / kApart][j % kApart] = add_lanes<kLanes>(acc[i][j]);
    finish_gated<kFinishLanes>(out, both[0], both[1], row + i, column / 2, columns / 2,
                               {true, true});
    //% else
    Vec<Acc, lanes_for(kNr)> total = Acc(0);
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) total[j] = add_lanes<kLanes>(acc[i][j]);
    finish<lanes_for(kNr)>(out, total, row + i, column, columns, {true, true});
    //% end
  }
}

/// What one thread keeps in the workspace: A arranged, scales and zero points of a tile's columns.
KILN_INLINE i64 bytes_of_a(const KilnArgs& args) {
  return round_up(args.m, kMr) * chunks_of(args.k) * kSlices * i64(sizeof(UnitVec));
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return round_up(bytes_of_a(args) + 2 * kNr * padded_groups(args.k) * i64(sizeof(float)), 64);
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(*args) * threads;
}

static void multiply(const KilnArgs& args, char* own, const Output& out, i64 batch, Range columns) {
  UnitVec* const a = reinterpret_cast<UnitVec*>(own);
  float* const scales = reinterpret_cast<float*>(own + bytes_of_a(args));
  const i64 groups = groups_of(args.k), padded = padded_groups(args.k);
  const i64 pitch = args.ldb * kCodeBits / 8;
  //% if zeros
  float* const zeros = scales + kNr * padded;
  //% end
  arrange_rows(a, args);
  //% if gate
  columns = {2 * columns.begin, 2 * columns.end};  // of op(B): those of both factors
  //% end
  for (i64 j = columns.begin; j < columns.end; j += kNr) {
    const int width = int(smaller(kNr, columns.end - j));
    Column from[kNr];
    for (int c = 0; c < kNr; ++c) {
      //% if gate
      // In place of a column that does not exist the last one of its factor.
      //% end
      //% if stacked
      const int factor = c / kColumns;
      const int at = factor * kColumns + int(smaller(c % kColumns, width / 2 - 1));
      const i64 of_b = factor * args.n + j / 2 + at % kColumns;
      //% end
      //% if interleaved
      const int at = int(smaller(c, width - 2 + c % 2));
      const i64 of_b = j + at;
      //% end
      //% if !gate
      const int at = c < width ? c : width - 1;
      //% end
      //% if squares && gate
      const i64 lines = (2 * args.n + kGroupColumns - 1) / kGroupColumns;
      const i64 first = (batch * lines + of_b / kGroupColumns) * groups;
      //% end
      //% if squares && !gate
      const i64 lines = (args.n + kGroupColumns - 1) / kGroupColumns;
      const i64 first = (batch * lines + (j + at) / kGroupColumns) * groups;
      //% end
      //% if !squares && gate
      const i64 first = (batch * 2 * args.n + of_b) * groups;
      //% end
      //% if !squares && !gate
      const i64 first = (batch * args.n + j + at) * groups;
      //% end
      //% if gate
      from[c].codes = static_cast<const u8*>(args.b) + of_b * pitch;
      //% else
      from[c].codes = static_cast<const u8*>(args.b) + (j + at) * pitch;
      //% end
      from[c].scales = scales + at * padded;
      //% if zeros
      from[c].zeros = zeros + at * padded;
      //% end
      if (c != at) continue;
      read_numbers(scales + c * padded, static_cast<const TypeScale*>(args.scale_b) + first, groups,
                   padded);
      //% if zeros
      read_zeros(zeros + c * padded, args.zero_b, first, groups, padded);
      //% end
    }
    for (i64 i = 0; i < args.m; i += kMr)
      tile(a + i * chunks_of(args.k) * kSlices, from, pitch, args.k, out, i, j,
           int(smaller(kMr, args.m - i)), width);
  }
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Work work = work_of(args, thread, threads);
  char* const own = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const u8*>(all->b) + batch * args.stride_b * kCodeBits / 8;
    if (work.columns.begin < work.columns.end)
      multiply(args, own, output_of(args, batch), batch, work.columns);
  }
}
