// Packed macro-kernel: blocks of k, n and m around a register tile of kMr rows by kNv vectors.
// Expects abi.h, vector.h, epilogue.h, share.h, pack.h, panels.h, decode.h, ahead.h, transposed.h
// and the parameters.
//% if gate
// Columns are those of D, under each of which are two of op(B).
//% end

//% if fetch_a || fetch_b
/// What is read after the current tiles, of A and of B.
struct Next {
  //% if fetch_a
  Ahead a;
  //% end
  //% if fetch_b
  Ahead b;
  //% end
};
//% end

/// The operands of one tile: A's rows and B's columns, packed or where the caller left them.
struct Operand {
  //% if pack_a
  const Unit* a;  // [k / kGroup][kMr]
  //% else
  const TypeA* a;
  i64 lda;
  //% end
  //% if packed_b
  const Unit* b;  // kNv panels
  i64 b_pitch;    // bytes from one to the next
  //% if column_sums
  const Unit* sums;  // of the first panel's columns; null: an earlier block of k had them
  //% end
  //% else
  const TypeB* b;
  i64 ldb;
  //% end
  //% if stacked
  i64 apart;  // from the columns of B of a factor, where they lie, to those of the other
  //% end
  //% if fetch_a || fetch_b
  Next* next;
  //% end
};

//% if !pack_a
/// The unit of A's row i that begins at k; `count` of its elements exist.
KILN_INLINE Unit unit_of_a(const Operand& in, int i, i64 k, i64 count) {
  //% if a_k_major
  const TypeA* from = in.a + i * in.lda + k;
  //% if direct_a
  if (count >= kGroup) return load<Unit>(from);
  //% if grouped
  // One load that ends with the row, where it has as many elements.
  constexpr int kBits = 8 * sizeof(TypeA);
  if (k >= kGroup) return load<Unit>(from - (kGroup - count)) >> ((kGroup - count) * kBits);
  //% end
  //% end
  return gather_unit(from, 1, count);
  //% else
  return gather_unit(in.a + k * in.lda + i, in.lda, count);
  //% end
}
//% end

//% if packed_b && !stacked
/// Rows of units of panels that lie beside one another, one k step of each. Two bases and a pitch
/// reach six panels: a register for each would leave too few for the rows of an unpacked A, and the
/// compiler would compute the addresses anew in each step (measured: half the speed at kNv = 6).
template <int N, bool Ragged>
struct PanelRows {
  const char *first, *fourth;
  const char* last;  // of a ragged tile, which may have a panel less than N
  i64 pitch;

  __attribute__((always_inline)) PanelRows(const Unit* at, i64 bytes_apart, int columns)
      : first(reinterpret_cast<const char*>(at)), pitch(bytes_apart) {
    fourth = first + 3 * pitch;
    last = first + (columns - 1) / kLanes * pitch;
    __asm__("" : "+r"(fourth), "+r"(pitch));
  }
  __attribute__((always_inline)) const char* of(int j) const {
    if (Ragged && j == N - 1) return last;
    return j < 3 ? first + j * pitch : fourth + (j - 3) * pitch;
  }
  __attribute__((always_inline)) void advance() {
    first += sizeof(UnitVec);
    fourth += sizeof(UnitVec);
    last += sizeof(UnitVec);
  }
};
//% end

//% if packed_b && stacked
/// Rows of units of panels, one k step of each: N / 2 of the first factor's that lie beside one
/// another, and as many of the second's. A base for each and a pitch reach six panels.
template <int N>
struct FactorRows {
  const char *first, *second;
  i64 pitch;

  __attribute__((always_inline)) FactorRows(const Unit* at, i64 apart, i64 bytes_apart)
      : first(reinterpret_cast<const char*>(at)),
        second(reinterpret_cast<const char*>(at + apart)),
        pitch(bytes_apart) {
    __asm__("" : "+r"(second), "+r"(pitch));
  }
  __attribute__((always_inline)) const char* of(int j) const {
    return j < N / 2 ? first + j * pitch : second + (j - N / 2) * pitch;
  }
  __attribute__((always_inline)) void advance() {
    first += sizeof(UnitVec);
    second += sizeof(UnitVec);
  }
};

//% end
//% if fetch_d || fetch_a || fetch_b
constexpr int kStepsPerFetch = 8;
//% end
/// What a tile lacks: nothing, columns of its last vector, or rows, columns and perhaps that
/// vector.
enum class Lacks { nothing, columns, both };

/// One register tile: M rows by N vectors over k. A ragged tile, which may lack both, skips missing
/// rows, by branches that are predicted. There are some of each width, so they are short: their
/// loop is not unrolled (no difference in speed) and finish() is not repeated.
template <int M, int N, Lacks What>
__attribute__((noinline)) static void tile(const Operand& operands, i64 k, const Output& where,
                                           i64 row, i64 column, int rows, int columns, Pass pass) {
  constexpr bool kRagged = What == Lacks::both, kMasked = What != Lacks::nothing;
  //% if interleaved
  columns *= 2;  // of op(B)
  //% end
  const Operand in = operands;  // copies that stores to D cannot alias
  const Output out = where;
  AccVec acc[M][N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j) {
    //% if column_sums
    // A's bytes were shifted by 128 to be unsigned; the column sums undo it.
    AccVec start = AccVec(0);
    if (in.sums) {
      //% if stacked
      start = load<AccVec>(FactorRows<N>(in.sums, in.apart, in.b_pitch).of(j)) * -128;
      //% else
      const int panel = kRagged && j == N - 1 ? (columns - 1) / kLanes : j;  // as PanelRows
      start = load<AccVec>(reinterpret_cast<const char*>(in.sums) + panel * in.b_pitch) * -128;
      //% end
    }
    //% else
    AccVec start = AccVec(Acc(0));
    //% end
    KILN_UNROLL
    for (int i = 0; i < M; ++i) acc[i][j] = start;
  }
  //% if swap
  const auto width = [&](int j) { return kMasked ? columns - j * kLanes : kLanes; };
  if (!pass.first) {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (kRagged && i >= rows) continue;
      KILN_UNROLL
      for (int j = 0; j < N; ++j)
        //% if column_sums
        acc[i][j] += load_first<kLanes>(waiting(out, row, column, i, j), width(j));
      //% else
      acc[i][j] = load_first<kLanes>(waiting(out, row, column, i, j), width(j));
      //% end
    }
  }
  //% end
  //% if packed_b && stacked
  FactorRows<N> right(in.b, in.apart, in.b_pitch);
  //% end
  //% if packed_b && !stacked
  PanelRows<N, kRagged> right(in.b, in.b_pitch, columns);
  //% end
  //% if !packed_b && !grouped && !stacked
  Vec<bool, kLanes> live[N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j)
    live[j] = first_lanes<kLanes>(kMasked ? columns - j * kLanes : kLanes, Iota<kLanes>{});
  //% end
  //% if !packed_b && !grouped && stacked
  Vec<bool, kLanes> live[N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j)
    live[j] =
        first_lanes<kLanes>(kMasked ? columns - j % (N / 2) * kLanes : kLanes, Iota<kLanes>{});
  //% end
  //% if !packed_b && stacked
  const auto column_of = [&](int j) { return j % (N / 2) * kLanes + j / (N / 2) * in.apart; };
  //% end

  auto step = [&](i64 g, i64 count) __attribute__((always_inline)) {
    UnitVec b[N];
    //% if !packed_b && grouped
    //% if stacked
    KILN_UNROLL
    for (int f = 0; f < N; f += N / 2) {
      KILN_UNROLL
      for (int j = 0; j < N / 2; j += kGroup) {
        UnitVec units[kGroup];
        const int left = (kMasked ? columns : N / 2 * kLanes) - j * kLanes;
        load_panels(units, in.b + g * kGroup * in.ldb + column_of(f + j), in.ldb, count,
                    int(smaller(kGroup * kLanes, left)));
        KILN_UNROLL
        for (int s = 0; s < kGroup && j + s < N / 2; ++s) b[f + j + s] = units[s];
      }
    }
    //% else
    KILN_UNROLL
    for (int j = 0; j < N; j += kGroup) {
      UnitVec units[kGroup];
      load_panels(units, in.b + g * kGroup * in.ldb + j * kLanes, in.ldb, count,
                  int(smaller(kGroup * kLanes, (kMasked ? columns : N * kLanes) - j * kLanes)));
      KILN_UNROLL
      for (int s = 0; s < kGroup && j + s < N; ++s) b[j + s] = units[s];
    }
    //% end
    //% else
    KILN_UNROLL
    for (int j = 0; j < N; ++j) {
      //% if packed_b
      b[j] = load<UnitVec>(right.of(j));
      //% else
      //% if stacked
      const TypeB* from = in.b + g * in.ldb + column_of(j);
      //% else
      const TypeB* from = in.b + g * in.ldb + j * kLanes;
      //% end
      if constexpr (kMasked)
        b[j] = units_along<kLanes, TypeB>(__builtin_masked_load(
            live[j], reinterpret_cast<const Raw<TypeB>*>(from), Vec<Raw<TypeB>, kLanes>(0)));
      else
        b[j] = load_units<kLanes>(from);
      //% end
    }
    //% end
    //% if prefetch
    KILN_UNROLL
    for (int j = 0; j < N; ++j) {
      //% if packed_b
      __builtin_prefetch(right.of(j) + kPrefetch * sizeof(UnitVec));
      //% else
      //% if stacked
      __builtin_prefetch(in.b + (g + kPrefetch) * kGroup * in.ldb + column_of(j));
      //% else
      __builtin_prefetch(in.b + (g + kPrefetch) * kGroup * in.ldb + j * kLanes);
      //% end
      //% end
    }
    //% end
    //% if packed_b
    right.advance();
    //% end
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (kRagged && i >= rows) continue;
      //% if pack_a
      UnitVec a = UnitVec(in.a[g * kMr + i]);
      //% else
      UnitVec a = UnitVec(unit_of_a(in, i, g * kGroup, count));
      //% if flip_a
      a ^= kFlip;
      //% end
      //% end
      KILN_UNROLL
      for (int j = 0; j < N; ++j) acc[i][j] = dot(acc[i][j], a, b[j]);
      KILN_UNROLL
      for (int j = 0; j < N; ++j) complete(acc[i][j]);
    }
  };
  const i64 whole = k / kGroup;
  i64 g = 0;
  //% if fetch_d || fetch_a || fetch_b
  // Fetches are spread over the steps: all at once they would hold every fill buffer while the
  // first steps wait for B (measured for D alone: 12 % at n = 1024, kc = 384).
  //% if fetch_a || fetch_b
  const i64 fetches = whole / kStepsPerFetch;
  //% else
  const i64 fetches = kRagged ? 0 : smaller(M, whole / kStepsPerFetch);  // D's rows
  //% end
  for (i64 i = 0; i < fetches; ++i) {
    //% if fetch_a
    fetch<kFetchA>(in.next->a);
    //% end
    //% if fetch_b
    fetch<kFetchB>(in.next->b);
    //% end
    //% if fetch_d && gate
    KILN_UNROLL
    for (int j = 0; j < N / 2; ++j)
      if (!kRagged && i < M)
        __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
    //% end
    //% if fetch_d && !gate
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      if (!kRagged && i < M)
        __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
        //% end
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
    for (int s = 0; s < kStepsPerFetch; ++s) step(g++, kGroup);
  }
#pragma clang loop unroll(disable) vectorize(disable)
  //% else
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
  //% end
  for (; g < whole; ++g) step(g, kGroup);
  //% if grouped
  if (k % kGroup) step(whole, k % kGroup);
  //% end

  //% if swap
  if (pass.last)
    return finish_transposed<M, N>(out, acc, row, column, kRagged ? rows : M,
                                   kMasked ? columns : N * kLanes);
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    if (kRagged && i >= rows) continue;
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      store_first<kLanes>(waiting(out, row, column, i, j), acc[i][j], width(j));
  }
  //% else
  //% if gate
  // Where the vectors of both factors under vector s of D are.
  //% if stacked
  const auto low = [](int s) { return s; };
  const auto high = [](int s) { return N / 2 + s; };
  //% else
  const auto low = [](int s) { return 2 * s; };
  const auto high = [](int s) { return 2 * s + 1; };
  columns /= 2;
  //% end
  if constexpr (kRagged) {
    AccVec sums[M][N];  // a copy: indexed at run time, accumulators would not stay in registers
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j) sums[i][j] = acc[i][j];
    }
#pragma clang loop unroll(disable)
    for (int i = 0; i < rows; ++i) {
#pragma clang loop unroll(disable)
      for (int s = 0; s < N / 2; ++s)
        finish_gated<kLanes>(out, sums[i][low(s)], sums[i][high(s)], row + i, column + s * kLanes,
                             columns - s * kLanes, pass);
    }
  } else {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int s = 0; s < N / 2; ++s)
        finish_gated<kLanes>(out, acc[i][low(s)], acc[i][high(s)], row + i, column + s * kLanes,
                             kMasked && s == N / 2 - 1 ? columns - s * kLanes : kLanes, pass);
    }
  }
  //% else
  if constexpr (kRagged) {
    AccVec sums[M][N];  // a copy: indexed at run time, accumulators would not stay in registers
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j) sums[i][j] = acc[i][j];
    }
#pragma clang loop unroll(disable)
    for (int i = 0; i < rows; ++i) {
#pragma clang loop unroll(disable)
      for (int j = 0; j * kLanes < columns; ++j)
        finish<kLanes>(out, sums[i][j], row + i, column + j * kLanes, columns - j * kLanes, pass);
    }
  } else {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j)
        finish<kLanes>(out, acc[i][j], row + i, column + j * kLanes,
                       kMasked && j == N - 1 ? columns - j * kLanes : kLanes, pass);
    }
  }
  //% end
  //% end
}

/// A ragged tile of as many vectors as the columns need or one more, N at most: a tile for each
/// number of vectors would take a fifth longer to compile.
template <int N>
KILN_INLINE void ragged_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                             int rows, int columns, Pass pass) {
  //% if gate
  if constexpr (N > 2)
    if (columns <= (N / 2 - 1) * kLanes)
      return ragged_tile<N - 2>(in, k, out, row, column, rows, columns, pass);
  //% else
  constexpr int kNarrower = N > 2 ? N - 2 : 1;
  if constexpr (N > 1)
    if (columns <= kNarrower * kLanes)
      return ragged_tile<kNarrower>(in, k, out, row, column, rows, columns, pass);
  //% end
  tile<kMr, N, Lacks::both>(in, k, out, row, column, rows, columns, pass);
}

KILN_INLINE void any_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                          int rows, int columns, Pass pass) {
  if (rows == kMr && columns == kNr)
    return tile<kMr, kNv, Lacks::nothing>(in, k, out, row, column, rows, columns, pass);
  //% if tail_columns
  if (rows == kMr && columns == kTailColumns) {
    //% if gate
    constexpr int kVectors = (kTailColumns + kLanes - 1) / kLanes * 2;
    //% else
    constexpr int kVectors = (kTailColumns + kLanes - 1) / kLanes;
    //% end
    return tile<kMr, kVectors, Lacks::columns>(in, k, out, row, column, rows, columns, pass);
  }
  //% end
  ragged_tile<kNv>(in, k, out, row, column, rows, columns, pass);
}

KILN_INLINE const TypeA* a_at(const KilnArgs& args, i64 row, i64 k) {
  //% if a_k_major
  return static_cast<const TypeA*>(args.a) + row * args.lda + k;
  //% else
  return static_cast<const TypeA*>(args.a) + k * args.lda + row;
  //% end
}

//% if pack_b
KILN_INLINE const TypeB* b_at(const KilnArgs& args, i64 k, i64 column) {
  //% if b_k_major
  return static_cast<const TypeB*>(args.b) + column * args.ldb + k;
  //% else
  return static_cast<const TypeB*>(args.b) + k * args.ldb + column;
  //% end
}
//% end
//% if pack_b && gate

/// Packs the columns of op(B) from `column` over k.
KILN_INLINE void pack_columns(const KilnArgs& args, Unit* to, i64 column, i64 width, i64 k0,
                              i64 k) {
  //% if b_k_major
  pack_panels_along(to, b_at(args, k0, column), args.ldb, width, k);
  //% else
  pack_panels_across(to, b_at(args, k0, column), args.ldb, width, k);
  //% end
}
//% end

/// What one thread keeps in the workspace, in bytes; see thread_memory().
struct Memory {
  Unit* a;
  Unit* b;
  Acc* partial;
};
constexpr i64 kLine = 64;
KILN_INLINE i64 bytes_of_a(const KilnArgs& args) {
  return kPackA ? round_up((smaller(args.division.mc, round_up(args.m, kMr)) *
                                (smaller(args.division.kc, args.k) / kGroup + 1) +
                            kLanes) *
                               i64(sizeof(Unit)),
                           kLine)
                : 0;
}
KILN_INLINE i64 bytes_of_b(const KilnArgs& args) {
  //% if gate
  return kPackB ? round_up(2 *
                               panels_units(smaller(args.division.nc, args.n),
                                            smaller(args.division.kc, args.k)) *
                               i64(sizeof(Unit)),
                           kLine)
                : 0;
  //% else
  return kPackB ? round_up(panels_units(smaller(args.division.nc, args.n),
                                        smaller(args.division.kc, args.k)) *
                               i64(sizeof(Unit)),
                           kLine)
                : 0;
  //% end
}
//% if gate
/// Accumulators of a row of a block: of both factors, whole vectors.
KILN_INLINE i64 waiting_in_row(const KilnArgs& args) {
  return 2 * round_up(smaller(args.division.nc, args.n), kLanes);
}
//% end
/// Partial accumulators that later k is added to, where D's type would round them.
KILN_INLINE i64 bytes_of_partial(const KilnArgs& args) {
  //% if split_k
  return round_up(args.m * args.n * i64(sizeof(Acc)), kLine);
  //% else
  //% if accumulate == workspace
  //% if gate
  return args.k > args.division.kc
             ? round_up(args.m * waiting_in_row(args) * i64(sizeof(Acc)), kLine)
             : 0;
  //% else
  return args.k > args.division.kc
             ? round_up(args.m * smaller(args.division.nc, args.n) * i64(sizeof(Acc)), kLine)
             : 0;
  //% end
  //% else
  return 0;
  //% end
  //% end
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return bytes_of_a(args) + bytes_of_b(args) + bytes_of_partial(args);
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  return {reinterpret_cast<Unit*>(base), reinterpret_cast<Unit*>(base + bytes_of_a(args)),
          reinterpret_cast<Acc*>(base + bytes_of_a(args) + bytes_of_b(args))};
}

//% if fetch_a
/// Rows of A from `row` over k, no more than `count` of them.
KILN_INLINE Ahead rows_ahead(const KilnArgs& args, i64 row, i64 count, i64 last, i64 k0, i64 k) {
  const i64 size = sizeof(TypeA), rows = smaller(count, last - row);
  if (rows <= 0) return piece(a_at(args, 0, k0), 0, 1, 1);
  //% if a_k_major
  return piece(a_at(args, row, k0), args.lda * size, k * size, rows);
  //% else
  return piece(a_at(args, row, k0), args.lda * size, rows * size, k);
  //% end
}
//% end
//% if fetch_b
/// The block of B after the one at (k0, j): the next along k or, after the last, along n.
KILN_INLINE Ahead piece_ahead(const KilnArgs& args, Range columns, Range ks, i64 j, i64 k0) {
  const KilnDivision& blocks = args.division;
  if ((k0 += blocks.kc) >= ks.end) {
    k0 = ks.begin;
    j += blocks.nc;
  }
  if (j >= columns.end) return piece(args.b, 0, 1, 1);
  const i64 size = sizeof(TypeB), k = smaller(blocks.kc, ks.end - k0);
  const i64 width = smaller(blocks.nc, columns.end - j);
  const TypeB* b = static_cast<const TypeB*>(args.b);
  //% if stacked
  //% if b_k_major
  Ahead next = piece(b + j * args.ldb + k0, args.n * args.ldb * size, k * size, 2 * width);
  //% else
  Ahead next = piece(b + k0 * args.ldb + j, args.n * size, width * size, 2 * k);
  //% end
  next.other = args.ldb * size - next.pitch;
  return next;
  //% end
  //% if interleaved && b_k_major
  return piece(b + 2 * j * args.ldb + k0, args.ldb * size, k * size, 2 * width);
  //% end
  //% if interleaved && !b_k_major
  return piece(b + k0 * args.ldb + 2 * j, args.ldb * size, 2 * width * size, k);
  //% end
  //% if !gate && b_k_major
  return piece(b + j * args.ldb + k0, args.ldb * size, k * size, width);
  //% end
  //% if !gate && !b_k_major
  return piece(b + k0 * args.ldb + j, args.ldb * size, width * size, k);
  //% end
}
//% end

/// Multiplies one block of A (rows) with one block of B (columns) over k.
static void block(const KilnArgs& args, const Memory& memory, const Output& out, Range rows,
                  //% if fetch_a || fetch_b
                  i64 last_row, Next& next,
                  //% end
                  Range columns, i64 k0, i64 k, Pass pass) {
  //% if pack_a && a_k_major
  for (i64 i = rows.begin; i < rows.end; i += kMr)
    pack_along<kMr, kFlip>(memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup),
                           a_at(args, i, k0), args.lda, int(smaller(kMr, rows.end - i)), k);
  //% end
  //% if pack_a && !a_k_major
  pack_across<kMr, kFlip>(memory.a, a_at(args, rows.begin, k0), args.lda, rows.end - rows.begin, k,
                          (k + kGroup - 1) / kGroup * kMr);
  //% end
  //% if fetch_a && pack_a
  next.a = rows_ahead(args, rows.end, args.division.mc, last_row, k0, k);
  //% end
  auto one = [&](i64 i, i64 j) __attribute__((always_inline)) {
    Operand in;
    //% if fetch_a || fetch_b
    in.next = &next;
    //% end
    //% if pack_a
    in.a = memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup);
    //% else
    in.a = a_at(args, i, k0);
    in.lda = args.lda;
    //% end
    //% if b_packed
    const Unit* panel = static_cast<const Unit*>(args.b) + panels_units(j, args.k);
    in.b = panel + k0 / kGroup * kLanes;
    in.b_pitch = panel_units(args.k) * i64(sizeof(Unit));
    //% if column_sums
    in.sums = pass.first ? panel + panel_groups(args.k) * kLanes : nullptr;
    //% end
    //% end
    //% if pack_b
    //% if interleaved
    in.b = memory.b + panels_units(2 * (j - columns.begin), k);
    //% else
    in.b = memory.b + panels_units(j - columns.begin, k);
    //% end
    //% if stacked
    in.apart = panels_units(columns.end - columns.begin, k);
    //% end
    in.b_pitch = panel_units(k) * i64(sizeof(Unit));
    //% if column_sums
    in.sums = in.b + panel_groups(k) * kLanes;
    //% end
    //% end
    //% if !packed_b
    //% if interleaved
    in.b = static_cast<const TypeB*>(args.b) + k0 * args.ldb + 2 * j;
    //% else
    in.b = static_cast<const TypeB*>(args.b) + k0 * args.ldb + j;
    //% end
    in.ldb = args.ldb;
    //% if stacked
    in.apart = args.n;
    //% end
    //% end
    any_tile(in, k, out, i, j, int(smaller(kMr, rows.end - i)), int(smaller(kNr, columns.end - j)),
             pass);
  };
  // Both orders in one loop: the call of a tile is long, and stands here once.
  const bool inner_columns = args.division.inner_columns != 0;
  for (i64 i = rows.begin, j = columns.begin; i < rows.end && j < columns.end;) {
    //% if fetch_a && !pack_a
    // Later tiles of these rows find the next ones in L2.
    if (j == columns.begin) next.a = rows_ahead(args, i + kMr, kMr, last_row, k0, k);
    //% end
    one(i, j);
    if (inner_columns) {
      if ((j += kNr) < columns.end) continue;
      j = columns.begin;
      i += kMr;
    } else {
      if ((i += kMr) < rows.end) continue;
      i = rows.begin;
      j += kNr;
    }
  }
}

/// One batch: everything that one thread does of it.
static void multiply(const KilnArgs& args, const Memory& memory, Output out, Range rows,
                     //% if weights
                     const Weights& weights,
                     //% end
                     Range columns, Range ks) {
  if (rows.begin == rows.end) return;
  const i64 mc = args.division.mc, nc = args.division.nc, kc = args.division.kc;
  for (i64 j = columns.begin; j < columns.end; j += nc) {
    const Range block_columns{j, smaller(j + nc, columns.end)};
    //% if gate
    out.partial = {memory.partial, waiting_in_row(args), rows.begin, 2 * j};
    //% else
    //% if accumulate == workspace && !split_k
    out.partial = {memory.partial, smaller(nc, args.n), rows.begin, j};
    //% end
    //% end
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      //% if split_k
      const Pass pass{k0 == ks.begin, false};  // reduce() finishes
      //% else
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      //% end
      //% if pack_b && stacked
      const i64 width = block_columns.end - j;
      pack_columns(args, memory.b, j, width, k0, k);
      pack_columns(args, memory.b + panels_units(width, k), args.n + j, width, k0, k);
      //% end
      //% if pack_b && interleaved
      pack_columns(args, memory.b, 2 * j, 2 * (block_columns.end - j), k0, k);
      //% end
      //% if pack_b && weights
      pack_weights(memory.b, weights, k0, j, block_columns.end - j, k);
      //% end
      //% if pack_b && !weights && !gate
      //% if b_k_major
      pack_panels_along(memory.b, b_at(args, k0, j), args.ldb, block_columns.end - j, k);
      //% else
      pack_panels_across(memory.b, b_at(args, k0, j), args.ldb, block_columns.end - j, k);
      //% end
      //% end
      //% if fetch_a || fetch_b
      Next next;
      //% if fetch_b
      next.b = piece_ahead(args, columns, ks, j, k0);
      //% end
      //% end
      for (i64 i = rows.begin; i < rows.end; i += mc)
        block(args, memory, out, {i, smaller(i + mc, rows.end)},
              //% if fetch_a || fetch_b
              rows.end, next,
              //% end
              block_columns, k0, k, pass);
    }
  }
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  //% if swap
  return bytes_of_thread(transposed(*args)) * threads;
  //% else
  return bytes_of_thread(*args) * threads;
  //% end
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  //% if swap
  const Work work = transposed(work_of(*all, thread, threads));
  const KilnArgs exchanged = transposed(*all);
  all = &exchanged;
  //% end
  KilnArgs args = *all;
  const Memory memory = thread_memory(args, thread);
  //% if !swap
  const Work work = work_of(args, thread, threads);
  //% end
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    //% if b_packed
    args.b = static_cast<const Unit*>(all->b) + batch * panels_units(args.n, args.k);
    //% end
    //% if !b_packed && !weights
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    //% end
    Output out = output_of(args, batch);
    //% if split_k
    Output sums = out;
    sums.partial = {memory.partial, args.n, 0, 0};
    multiply(args, memory, sums, work.rows, work.columns, work.ks);
    wait_for_all(args.barrier, threads);
    reduce(args, out, thread_memory(args, 0).partial, bytes_of_thread(args) / i64(sizeof(Acc)),
           thread, threads);
    wait_for_all(args.barrier, threads);
    //% else
    multiply(args, memory, out, work.rows,
             //% if weights
             weights_of(*all, batch),
             //% end
             work.columns, work.ks);
    //% end
  }
  //% if stream_d
  __builtin_ia32_sfence();  // streamed stores come before whatever the caller does next
  //% end
}
