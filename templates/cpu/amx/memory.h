// What a thread keeps in the workspace: copies of operands, and accumulators.
// Expects abi.h, share.h, panels.h, tile.h and the parameters.
#pragma once

struct Memory {
  char* left;
  Unit* right;
  Acc* partial;
  //% if blocked
  Acc* sums;
  //% end
  //% if stream_d
  TypeD* lines;
  //% end
};
constexpr i64 kLine = 64;
KILN_INLINE i64 right_columns(const KilnArgs& args) {
  //% if swap
  return args.m;
  //% else
  return args.n;
  //% end
}
//% if blocked
KILN_INLINE i64 left_rows(const KilnArgs& args) {
  //% if swap
  return args.n;
  //% else
  return args.m;
  //% end
}
/// Whether the left operand's copy is read by several blocks of columns, so that all of it is kept.
KILN_INLINE bool keeps_left(const KilnArgs& args) { return right_columns(args) > args.division.nc; }
/// Of the left operand's copy, a strip of kHeight rows over k.
KILN_INLINE i64 strip_bytes(i64 k) {
  return part_row((k + kStep - 1) / kStep, 0, kHeight, 0) * kTileBytes;
}
KILN_INLINE i64 bytes_of_left(const KilnArgs& args) {
  const i64 all = left_rows(args);
  const i64 rows = keeps_left(args) ? all : smaller(args.division.mc, all);
  const i64 k = keeps_left(args) ? args.k : smaller(args.division.kc, args.k);
  return round_up(rows, kHeight) / kHeight * strip_bytes(k);
}
/// Whether several blocks of rows read the panels, so that those over all of k are kept, block
/// after block of k.
KILN_INLINE bool keeps_right(const KilnArgs& args) { return left_rows(args) > args.division.mc; }
KILN_INLINE i64 bytes_of_right(const KilnArgs& args) {
  //% if b_packed
  return 0;
  //% else
  const i64 k = keeps_right(args) ? args.k : smaller(args.division.kc, args.k);
  return kParts * panels_units(smaller(args.division.nc, right_columns(args)), k) *
         i64(sizeof(Unit));
  //% end
}
/// Accumulators of a block of rows and columns.
KILN_INLINE i64 bytes_of_sums(const KilnArgs& args) {
  return round_up(smaller(args.division.mc, left_rows(args)), kHeight) *
         round_up(smaller(args.division.nc, right_columns(args)), kNr) * i64(sizeof(Acc));
}
//% else
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
//% end
KILN_INLINE i64 bytes_of_partial(const KilnArgs& args) {
  //% if split_k
  return round_up(args.m * args.n * i64(sizeof(Acc)), kLine);
  //% else
  //% if accumulate == workspace && !blocked
  return args.k > args.division.kc ? round_up(args.m * args.n * i64(sizeof(Acc)), kLine) : 0;
  //% else
  return 0;
  //% end
  //% end
}
//% if stream_d
/// Rows of a block of D that wait together. A line is loaded whole; right after the narrower stores
/// that made it, that load would wait until they have left the store buffer.
constexpr i64 kRowsOfLines = 4;
KILN_INLINE i64 pitch_of_lines(const KilnArgs& args) {
  return line_pitch(smaller(args.division.nc, right_columns(args)));
}
//% end
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  //% if stream_d
  return bytes_of_left(args) + bytes_of_right(args) + bytes_of_sums(args) +
         kRowsOfLines * pitch_of_lines(args) * i64(sizeof(TypeD));
  //% end
  //% if blocked && !stream_d
  return bytes_of_left(args) + bytes_of_right(args) + bytes_of_sums(args) + bytes_of_partial(args);
  //% end
  //% if !blocked
  return bytes_of_left(args) + bytes_of_right(args) + bytes_of_partial(args);
  //% end
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  //% if blocked
  char* sums = base + bytes_of_left(args) + bytes_of_right(args);
  //% if stream_d
  return {base, reinterpret_cast<Unit*>(base + bytes_of_left(args)), nullptr,
          reinterpret_cast<Acc*>(sums), reinterpret_cast<TypeD*>(sums + bytes_of_sums(args))};
  //% else
  return {base, reinterpret_cast<Unit*>(base + bytes_of_left(args)),
          reinterpret_cast<Acc*>(sums + bytes_of_sums(args)), reinterpret_cast<Acc*>(sums)};
  //% end
  //% else
  return {base, reinterpret_cast<Unit*>(base + bytes_of_left(args)),
          reinterpret_cast<Acc*>(base + bytes_of_left(args) + bytes_of_right(args))};
  //% end
}
