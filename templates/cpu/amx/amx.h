// Tile registers: named wrappers of AMX's instructions. Tile numbers are constants of the code.
// Expects types.h.
#pragma once

constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;  // of one row

/// Memory image that ldtilecfg reads; see Intel's SDM, "TILECFG".
struct alignas(64) TileConfig {
  u8 palette = 1, start_row = 0, reserved[14] = {};
  u16 row_bytes[16] = {};
  u8 rows[16] = {};
};

/// All eight tiles are 16 rows of 64 bytes for as long as this lives.
struct TileSession {
  TileSession() {
    TileConfig config;
    for (int t = 0; t < 8; ++t) {
      config.row_bytes[t] = kTileBytes;
      config.rows[t] = kTileRows;
    }
    __builtin_ia32_tile_loadconfig(&config);
  }
  ~TileSession() { __builtin_ia32_tilerelease(); }
};

template <int T>
KILN_INLINE void tile_zero() {
  __builtin_ia32_tilezero(T);
}
template <int T>
KILN_INLINE void tile_load(const void* from, i64 row_bytes) {
  __builtin_ia32_tileloadd64(T, from, static_cast<unsigned long long>(row_bytes));
}
//% if right_t1
/// From L2 past L1, whose lines are kept for what is read again.
template <int T>
KILN_INLINE void tile_load_past_l1(const void* from, i64 row_bytes) {
  __builtin_ia32_tileloaddt164(T, from, static_cast<unsigned long long>(row_bytes));
}
//% end
template <int T>
KILN_INLINE void tile_store(void* to, i64 row_bytes) {
  __builtin_ia32_tilestored64(T, to, static_cast<unsigned long long>(row_bytes));
}
/// Accumulates left · right, left being rows of consecutive k, right units across its columns.
template <int Sum, int Left, int Right>
KILN_INLINE void tile_dot() {
  //% if kind == bf16
  __builtin_ia32_tdpbf16ps(Sum, Left, Right);
  //% end
  //% if kind == vnni && left_signed && right_signed
  __builtin_ia32_tdpbssd(Sum, Left, Right);
  //% end
  //% if kind == vnni && left_signed && !right_signed
  __builtin_ia32_tdpbsud(Sum, Left, Right);
  //% end
  //% if kind == vnni && !left_signed && right_signed
  __builtin_ia32_tdpbusd(Sum, Left, Right);
  //% end
}
