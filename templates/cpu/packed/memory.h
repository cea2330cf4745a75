// Where a thread reads A and B, and what it keeps in the workspace. Expects abi.h, share.h,
// panels.h and the parameters.
#pragma once

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
//% if pack_b && gate && !weights

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
  //% if stream_d
  TypeD* lines;
  //% end
  //% if rows_d
  TypeD* rows;
  //% end
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
//% if stream_d
/// Lines of D that are not whole yet, of a tile.
constexpr i64 kLinePitch = line_pitch(kNr);
constexpr i64 kBytesOfLines = kMr * kLinePitch * i64(sizeof(TypeD));
//% end
//% if rows_d
/// Two strips of D's rows.
KILN_INLINE i64 bytes_of_rows(const KilnArgs& args) {
  const i64 elements = strip_elements(smaller(args.division.nc, args.n));
  return 2 * elements * i64(sizeof(TypeD));
}
//% end
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  //% if stream_d
  return bytes_of_a(args) + bytes_of_b(args) + bytes_of_partial(args) + kBytesOfLines;
  //% end
  //% if rows_d
  return bytes_of_a(args) + bytes_of_b(args) + bytes_of_partial(args) + bytes_of_rows(args);
  //% end
  //% if !stream_d && !rows_d
  return bytes_of_a(args) + bytes_of_b(args) + bytes_of_partial(args);
  //% end
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  //% if stream_d || rows_d
  char* const partial = base + bytes_of_a(args) + bytes_of_b(args);
  return {reinterpret_cast<Unit*>(base), reinterpret_cast<Unit*>(base + bytes_of_a(args)),
          reinterpret_cast<Acc*>(partial),
          reinterpret_cast<TypeD*>(partial + bytes_of_partial(args))};
  //% else
  return {reinterpret_cast<Unit*>(base), reinterpret_cast<Unit*>(base + bytes_of_a(args)),
          reinterpret_cast<Acc*>(base + bytes_of_a(args) + bytes_of_b(args))};
  //% end
}
