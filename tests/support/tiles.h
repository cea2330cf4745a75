// Tile registers in memory: kernels of AMX on machines that have AVX-512 and no tiles.
#pragma once

#include <string>
#include <string_view>

#include "generator/render/render.h"

namespace kiln::test {

/// What stands in place of templates/cpu/amx/amx.h. `LeftByte` and `RightByte` are its operands'
/// signs.
inline constexpr std::string_view kTilesInMemory = R"(
constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;
static thread_local unsigned char g_tiles[8][kTileRows][kTileBytes];
struct TileSession {
  ~TileSession() {}
};
template <int T>
KILN_INLINE void tile_zero() {
  __builtin_memset(g_tiles[T], 0, sizeof g_tiles[T]);
}
template <int T>
KILN_INLINE void tile_load(const void* from, i64 row_bytes) {
  for (int r = 0; r < kTileRows; ++r)
    __builtin_memcpy(g_tiles[T][r], static_cast<const char*>(from) + r * row_bytes, kTileBytes);
}
template <int T>
KILN_INLINE void tile_load_past_l1(const void* from, i64 row_bytes) {
  tile_load<T>(from, row_bytes);
}
template <int T>
KILN_INLINE void tile_store(void* to, i64 row_bytes) {
  for (int r = 0; r < kTileRows; ++r)
    __builtin_memcpy(static_cast<char*>(to) + r * row_bytes, g_tiles[T][r], kTileBytes);
}
template <typename T>
KILN_INLINE T element(const unsigned char* tile_row, int index) {
  T value;
  __builtin_memcpy(&value, tile_row + index * int(sizeof value), sizeof value);
  return value;
}
KILN_INLINE Acc product(const unsigned char* left, const unsigned char* right) {
  if constexpr (kGroup == 4) {
    Acc sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += Acc(element<LeftByte>(left, i)) * Acc(element<RightByte>(right, i));
    return sum;
  } else {
    Acc sum = 0;
    for (int i = 0; i < 2; ++i)
      sum += bits_of<float>(u32(element<u16>(left, i)) << 16) *
             bits_of<float>(u32(element<u16>(right, i)) << 16);
    return sum;
  }
}
template <int Sum, int Left, int Right>
KILN_INLINE void tile_dot() {
  for (int m = 0; m < kTileRows; ++m)
    for (int n = 0; n < kTileBytes / 4; ++n) {
      Acc sum = element<Acc>(g_tiles[Sum][m], n);
      for (int k = 0; k < kTileBytes / 4; ++k)
        sum += product(g_tiles[Left][m] + 4 * k, g_tiles[Right][k] + 4 * n);
      __builtin_memcpy(g_tiles[Sum][m] + 4 * n, &sum, sizeof sum);
    }
}
)";

/// Puts them in place of the section of templates/cpu/amx/amx.h. Types: of operands of bytes.
inline Result<Source> with_tiles_in_memory(Result<Source> source, DType left, DType right) {
  if (!source) return source;
  const auto begin = source->text.find("// ---- cpu/amx/amx.h ----");
  const auto end = source->text.find("// ---- cpu/", begin + 1);
  if (begin == std::string::npos || end == std::string::npos)
    return fail(ErrorCode::internal, "no section of amx.h");
  const auto byte = [](DType type) { return type == u8 ? "u8" : "i8"; };
  source->text.replace(begin, end - begin,
                       std::string("using LeftByte = ") + byte(left) + ";\nusing RightByte = " +
                           byte(right) + ";\n" + std::string(kTilesInMemory));
  return source;
}

}  // namespace kiln::test
