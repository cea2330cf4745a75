// Tile kernel: kMt × kNt tile registers of accumulators. The left operand's rows are read where
// they lie (or copied, k padded, where they cannot be); the right operand is packed in panels, 16
// rows of which are one tile. With `thirds` both are fp32, copied as three parts of bf16.
// Expects abi.h, vector.h, epilogue.h, share.h, pack.h, panels.h, amx.h and the parameters.

constexpr int kStep = kTileBytes / int(sizeof(Unit)) * kGroup;  // k of one tile row
constexpr int kHeight = kMt * kTileRows;

//% if swap
// D^T is computed: B's columns are the left operand, A's rows the right one.
using Left = TypeB;
//% else
using Left = TypeA;
//% end

//% if thirds
// Parts lie tile by tile: rows of a power of two of bytes would share a few sets of the cache.
constexpr int kParts = 3;
/// The number of a tile row among those of all steps and parts, `height` of each.
KILN_INLINE i64 part_row(i64 step, int part, i64 height, i64 row) {
  return (step * kParts + part) * height + row;
}

//% end
/// Rows of the left operand over a block of k: `row_bytes` apart, k contiguous.
struct LeftStrip {
  const void* data;
  i64 row_bytes;
};

template <int N, int Row, int... I>
KILN_INLINE void dots_of_row(Sequence<int, I...>) {
  (tile_dot<Row * N + I, kMt * kNt + Row, kMt * kNt + kMt + I>(), ...);
}
template <int... I>
KILN_INLINE void load_left(const char* at, i64 row_bytes, Sequence<int, I...>) {
  (tile_load<kMt * kNt + I>(at + I * kTileRows * row_bytes, row_bytes), ...);
}
template <int... I>
KILN_INLINE void load_right(const Unit* const (&panels)[kNt], i64 offset, Sequence<int, I...>) {
  (tile_load<kMt * kNt + kMt + I>(panels[I] + offset, kLanes * sizeof(Unit)), ...);
}
template <int... I>
KILN_INLINE void dots(Sequence<int, I...>) {
  (dots_of_row<kNt, I>(Iota<kNt>{}), ...);
}
template <int... I>
KILN_INLINE void zero_sums(Sequence<int, I...>) {
  (tile_zero<I>(), ...);
}
template <int... I>
KILN_INLINE void store_sums(Acc (*to)[kNr], Sequence<int, I...>) {
  (tile_store<I>(&to[I / kNt * kTileRows][I % kNt * kLanes], sizeof(to[0])), ...);
}

/// Panels of the right operand over a block of k, `pitch` units apart.
struct RightPanels {
  const Unit* data;
  i64 pitch;
};

/// One block of kHeight × kNr accumulators over k; `height` × `width` of them exist.
__attribute__((noinline)) static void tile(const LeftStrip& left, const RightPanels& right, i64 k,
                                           const Output& where, i64 row, i64 column, int height,
                                           int width, Pass pass) {
  const Output out = where;  // a copy that stores to D cannot alias
  const Unit* panels[kNt];
  KILN_UNROLL
  for (int j = 0; j < kNt; ++j)  // in place of one that does not exist, the first is read
    panels[j] = right.data + (j * kLanes < width ? j * right.pitch : 0);
  zero_sums(Iota<kMt * kNt>{});
  for (i64 at = 0; at < k; at += kStep) {
    //% if thirds
    // The six products of parts above the last bit, each part loaded as seldom as the tiles allow.
    const i64 step = at / kStep;
    const auto left_part = [&](int part) {
      load_left(static_cast<const char*>(left.data) + part_row(step, part, kHeight, 0) * kTileBytes,
                kTileBytes, Iota<kMt>{});
    };
    const auto right_part = [&](int part) {
      load_right(panels, part_row(step, part, kTileRows, 0) * kLanes, Iota<kNt>{});
    };
    const auto multiply_parts = [] { dots(Iota<kMt>{}); };
    right_part(1), left_part(1), multiply_parts();
    left_part(0), multiply_parts();
    right_part(2), multiply_parts();
    right_part(0), left_part(2), multiply_parts();
    left_part(1), multiply_parts();
    left_part(0), multiply_parts();
    //% else
    load_right(panels, at / kGroup * kLanes, Iota<kNt>{});
    load_left(static_cast<const char*>(left.data) + at * i64(sizeof(Left)), left.row_bytes,
              Iota<kMt>{});
    dots(Iota<kMt>{});
    //% end
  }
  alignas(64) Acc sums[kHeight][kNr];
  store_sums(sums, Iota<kMt * kNt>{});
  //% if swap
  for (int i = 0; i < height; i += kLanes) {
    for (int j = 0; j < width; j += kLanes) {
      UnitVec block[kLanes];
      KILN_UNROLL
      for (int r = 0; r < kLanes; ++r) block[r] = load<UnitVec>(&sums[i + r][j]);
      transpose<kLanes>(block);
      for (int r = 0; r < kLanes && j + r < width; ++r)
        finish<kLanes>(out, bits_of<AccVec>(block[r]), row + j + r, column + i, height - i, pass);
    }
  }
  //% else
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; j += kLanes)
      finish<kLanes>(out, load<AccVec>(&sums[i][j]), row + i, column + j, width - j, pass);
  //% end
}

//% if thirds
using FloatVec = Vec<float, kLanes>;

/// The upper halves of fp32's bits, rounded to nearest even; those that would round to infinity,
/// and what is not finite, are cut.
KILN_INLINE UnitVec upper_half(UnitVec x) {
  const UnitVec cut = x & 0xffff0000u;
  const UnitVec near = (x + 0x7fffu + ((x >> 16) & 1u)) & 0xffff0000u;
  return (near & 0x7f800000u) == 0x7f800000u ? cut : near;
}

/// x = parts[0] + parts[1] + parts[2], each of them a bf16 in the upper half of its lane. What is
/// left of an infinity is a NaN.
KILN_INLINE void split(UnitVec (&parts)[kParts], UnitVec x) {
  KILN_UNROLL
  for (int part = 0; part < kParts; ++part) {
    parts[part] = upper_half(x);
    x = bits_of<UnitVec>(bits_of<FloatVec>(x) - bits_of<FloatVec>(parts[part]));
  }
}

/// Of two neighbours along k.
KILN_INLINE void split_pair(UnitVec (&parts)[kParts], UnitVec first, UnitVec second) {
  UnitVec low[kParts], high[kParts];
  split(low, first);
  split(high, second);
  KILN_UNROLL
  for (int part = 0; part < kParts; ++part) parts[part] = (low[part] >> 16) | high[part];
}

template <int... I>
KILN_INLINE UnitVec even_lanes(UnitVec a, UnitVec b, Sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (2 * I)...);
}
template <int... I>
KILN_INLINE UnitVec odd_lanes(UnitVec a, UnitVec b, Sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (2 * I + 1)...);
}

/// A line's elements [at, at + kLanes) of `count`; zero beyond.
KILN_INLINE UnitVec elements(const float* line, i64 at, i64 count) {
  if (at >= count) return UnitVec(0);
  return bits_of<UnitVec>(load_first<kLanes>(line + at, int(smaller(kLanes, count - at))));
}

/// kLanes lines of `lines` that exist, `ld` apart, turned: vector i holds element at + i of each.
KILN_INLINE void load_turned(UnitVec (&block)[kLanes], const float* from, i64 ld, int lines, i64 at,
                             i64 count) {
  KILN_UNROLL
  for (int r = 0; r < kLanes; ++r)
    block[r] = r < lines ? elements(from + r * ld, at, count) : UnitVec(0);
  transpose<kLanes>(block);
}

/// Copies `height` rows of the left operand in parts, both ends padded with zeros to whole tiles.
static void copy_left(char* to, const float* from, i64 ld, int height, i64 k) {
  const auto place = [&](i64 at, int part, int row) {
    return to + part_row(at / kStep, part, kHeight, row) * kTileBytes;
  };
  for (i64 at = 0; at < k; at += kStep) {
    for (int r = 0; r < kHeight; r += kLanes) {
      //% if left_k_major
      // Pairs of neighbours are what a lane holds already: even and odd elements are told apart.
      KILN_UNROLL
      for (int row = r; row < r + kLanes; ++row) {
        const float* line = from + (row < height ? row : 0) * ld;
        const i64 count = row < height ? k : 0;
        const UnitVec some = elements(line, at, count), more = elements(line, at + kLanes, count);
        UnitVec parts[kParts];
        split_pair(parts, even_lanes(some, more, Iota<kLanes>{}),
                   odd_lanes(some, more, Iota<kLanes>{}));
        KILN_UNROLL
        for (int part = 0; part < kParts; ++part) store(place(at, part, row), parts[part]);
      }
      //% else
      UnitVec block[kParts][kLanes];
      KILN_UNROLL
      for (int g = 0; g < kLanes; ++g) {
        const float* line = from + (at + g * kGroup) * ld;
        const i64 left = k - at - g * kGroup;
        UnitVec parts[kParts];
        split_pair(parts, left > 0 ? elements(line, r, height) : UnitVec(0),
                   left > 1 ? elements(line + ld, r, height) : UnitVec(0));
        KILN_UNROLL
        for (int part = 0; part < kParts; ++part) block[part][g] = parts[part];
      }
      KILN_UNROLL
      for (int part = 0; part < kParts; ++part) {
        transpose<kLanes>(block[part]);
        KILN_UNROLL
        for (int g = 0; g < kLanes; ++g) store(place(at, part, r + g), block[part][g]);
      }
      //% end
    }
  }
}
//% else
/// Copies `height` rows of the left operand, both ends padded with zeros to whole tiles.
static void copy_left(char* to, const Left* from, i64 ld, int height, i64 k) {
  const i64 row_bytes = round_up(k, kStep) * i64(sizeof(Left));
  //% if left_k_major
  for (int r = 0; r < kHeight; ++r) {
    const i64 bytes = r < height ? k * i64(sizeof(Left)) : 0;
    __builtin_memcpy(to + r * row_bytes, from + (r < height ? r : 0) * ld, bytes);
    __builtin_memset(to + r * row_bytes + bytes, 0, row_bytes - bytes);
  }
  //% else
  for (i64 at = 0; at < k; at += kStep) {
    for (int r = 0; r < kHeight; r += kLanes) {
      UnitVec block[kLanes];
      KILN_UNROLL
      for (int g = 0; g < kLanes; ++g) {
        const i64 left = k - at - g * kGroup;
        block[g] = UnitVec(0);
        if (left > 0 && r < height)
          block[g] = load_across<kLanes>(from + (at + g * kGroup) * ld + r, ld, left, height - r);
      }
      transpose<kLanes>(block);
      KILN_UNROLL
      for (int g = 0; g < kLanes; ++g)
        store(to + (r + g) * row_bytes + at * i64(sizeof(Left)), block[g]);
    }
  }
  //% end
}
//% end

KILN_INLINE const Left* left_at(const KilnArgs& args, i64 row, i64 k) {
  //% if swap
  const auto* from = static_cast<const TypeB*>(args.b);
  const i64 ld = args.ldb;
  //% else
  const auto* from = static_cast<const TypeA*>(args.a);
  const i64 ld = args.lda;
  //% end
  //% if left_k_major
  return from + row * ld + k;
  //% else
  return from + k * ld + row;
  //% end
}

//% if !b_packed
//% if thirds
/// `width` columns in parts. Whole vectors of columns, and whole tiles of k, are written.
__attribute__((noinline)) static void pack_parts(Unit* to, const float* from, i64 ld, i64 width,
                                                 i64 k) {
  const i64 groups = panel_groups(k);
  for (i64 j = 0; j < width; j += kLanes, to += kParts * panel_units(k)) {
    const auto put = [&](i64 g, UnitVec first, UnitVec second) {
      UnitVec parts[kParts];
      split_pair(parts, first, second);
      KILN_UNROLL
      for (int part = 0; part < kParts; ++part)
        store(to + part_row(g / kTileRows, part, kTileRows, g % kTileRows) * kLanes, parts[part]);
    };
    //% if right_k_major
    static_assert(kPanelStep * kGroup % kLanes == 0, "a panel ends with a whole vector of k");
    for (i64 g = 0; g < groups; g += kLanes / kGroup) {
      UnitVec block[kLanes];
      load_turned(block, from + j * ld, ld, int(smaller(kLanes, width - j)), g * kGroup, k);
      KILN_UNROLL
      for (int i = 0; i < kLanes; i += kGroup) put(g + i / kGroup, block[i], block[i + 1]);
    }
    //% else
    for (i64 g = 0; g < groups; ++g) {
      const float* line = from + g * kGroup * ld;
      const i64 left = k - g * kGroup;
      put(g, left > 0 ? elements(line, j, width) : UnitVec(0),
          left > 1 ? elements(line + ld, j, width) : UnitVec(0));
    }
    //% end
  }
}

//% end
/// Packs `width` columns of the right operand.
KILN_INLINE void pack_right(Unit* to, const KilnArgs& args, i64 k0, i64 column, i64 width, i64 k) {
  //% if swap
  const auto* from = static_cast<const TypeA*>(args.a);
  const i64 ld = args.lda;
  //% else
  const auto* from = static_cast<const TypeB*>(args.b);
  const i64 ld = args.ldb;
  //% end
  //% if thirds
  //% if right_k_major
  pack_parts(to, from + column * ld + k0, ld, width, k);
  //% else
  pack_parts(to, from + k0 * ld + column, ld, width, k);
  //% end
  //% else
  //% if right_k_major
  pack_panels_along(to, from + column * ld + k0, ld, width, k);
  //% else
  pack_panels_across(to, from + k0 * ld + column, ld, width, k);
  //% end
  //% end
}
//% end

struct Memory {
  char* left;
  Unit* right;
  Acc* partial;
};
constexpr i64 kLine = 64;
KILN_INLINE i64 right_columns(const KilnArgs& args) {
  //% if swap
  return args.m;
  //% else
  return args.n;
  //% end
}
KILN_INLINE i64 bytes_of_left(const KilnArgs& args) {
  //% if thirds
  return part_row(round_up(smaller(args.division.kc, args.k), kStep) / kStep, 0, kHeight, 0) *
         kTileBytes;
  //% else
  return kHeight * round_up(smaller(args.division.kc, args.k), kStep) * i64(sizeof(Left));
  //% end
}
KILN_INLINE i64 bytes_of_right(const KilnArgs& args) {
  //% if b_packed
  return 0;
  //% else
  //% if thirds
  return round_up(kParts *
                      panels_units(smaller(args.division.nc, right_columns(args)),
                                   smaller(args.division.kc, args.k)) *
                      i64(sizeof(Unit)),
                  kLine);
  //% else
  return round_up(panels_units(smaller(args.division.nc, right_columns(args)),
                               smaller(args.division.kc, args.k)) *
                      i64(sizeof(Unit)),
                  kLine);
  //% end
  //% end
}
KILN_INLINE i64 bytes_of_partial(const KilnArgs& args) {
  //% if split_k
  return round_up(args.m * args.n * i64(sizeof(Acc)), kLine);
  //% else
  //% if accumulate == workspace
  return args.k > args.division.kc ? round_up(args.m * args.n * i64(sizeof(Acc)), kLine) : 0;
  //% else
  return 0;
  //% end
  //% end
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return bytes_of_left(args) + bytes_of_right(args) + bytes_of_partial(args);
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  return {base, reinterpret_cast<Unit*>(base + bytes_of_left(args)),
          reinterpret_cast<Acc*>(base + bytes_of_left(args) + bytes_of_right(args))};
}

static void multiply(const KilnArgs& args, const Memory& memory, const Output& out, Range rows,
                     Range columns, Range ks) {
  if (rows.begin == rows.end || columns.begin == columns.end) return;
  //% if swap
  const Range lefts = columns, rights = rows;
  const i64 left_ld = args.ldb;
  //% else
  const Range lefts = rows, rights = columns;
  const i64 left_ld = args.lda;
  //% end
  const i64 nc = args.division.nc, kc = args.division.kc;
  for (i64 j0 = rights.begin; j0 < rights.end; j0 += nc) {
    const i64 j1 = smaller(j0 + nc, rights.end);
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      //% if split_k
      const Pass pass{k0 == ks.begin, false};  // reduce() finishes
      //% else
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      //% end
      //% if !b_packed
      pack_right(memory.right, args, k0, j0, j1 - j0, k);
      //% end
      for (i64 i = lefts.begin; i < lefts.end; i += kHeight) {
        const int height = int(smaller(kHeight, lefts.end - i));
        LeftStrip left;
        //% if left_k_major && !copy_left && !thirds
        left = {left_at(args, i, k0), left_ld * i64(sizeof(Left))};
        if (height < kHeight || k % kStep != 0) {
          copy_left(memory.left, left_at(args, i, k0), left_ld, height, k);
          left = {memory.left, round_up(k, kStep) * i64(sizeof(Left))};
        }
        //% else
        copy_left(memory.left, left_at(args, i, k0), left_ld, height, k);
        //% if thirds
        left = {memory.left, kTileBytes};
        //% else
        left = {memory.left, round_up(k, kStep) * i64(sizeof(Left))};
        //% end
        //% end
        for (i64 j = j0; j < j1; j += kNr) {
          //% if b_packed
          const RightPanels right{
              static_cast<const Unit*>(args.b) + panels_units(j, args.k) + k0 / kGroup * kLanes,
              panel_units(args.k)};
          //% else
          //% if thirds
          const RightPanels right{memory.right + kParts * panels_units(j - j0, k),
                                  kParts * panel_units(k)};
          //% else
          const RightPanels right{memory.right + panels_units(j - j0, k), panel_units(k)};
          //% end
          //% end
          //% if swap
          tile(left, right, k, out, j, i, height, int(smaller(kNr, j1 - j)), pass);
          //% else
          tile(left, right, k, out, i, j, height, int(smaller(kNr, j1 - j)), pass);
          //% end
        }
      }
    }
  }
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(*args) * threads;
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Memory memory = thread_memory(args, thread);
  const Work work = work_of(args, thread, threads);
  TileSession tiles;
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    //% if b_packed
    args.b = static_cast<const Unit*>(all->b) + batch * panels_units(args.n, args.k);
    //% else
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    //% end
    Output out = output_of(args, batch);
    out.partial = {memory.partial, args.n, 0, 0};
    multiply(args, memory, out, work.rows, work.columns, work.ks);
    //% if split_k
    wait_for_all(args.barrier, threads);
    reduce(args, out, thread_memory(args, 0).partial, bytes_of_thread(args) / i64(sizeof(Acc)),
           thread, threads);
    wait_for_all(args.barrier, threads);
    //% end
  }
}
