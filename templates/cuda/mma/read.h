// From shared memory to the registers of the matrix instruction, for every element size and both
// directions. A warp's rows go in groups of 8; which rows make a group is row_in_tile()'s to say.
// Expects banks.h, ampere_ptx.h.
#pragma once

template <typename T, bool IsA, bool AlongK, int Rows, int Bits, int Base, int Shift>
struct Tile {
  static constexpr int kSize = int(sizeof(T));
  static constexpr int kPitch = (AlongK ? kBlockK : Rows) * kSize;  // bytes of a line
  static constexpr int kLines = AlongK ? Rows : kBlockK;
  static constexpr int kBytes = kPitch * kLines;
  static constexpr int kNear = near_rows(kSize, AlongK, IsA);
  /// Lines after which places repeat, moved by whole lines.
  static constexpr int kPeriod = kSize == 1 && !AlongK ? 16 : 1 << (Bits + Shift);
  static __device__ __forceinline__ u32 place(int line, int byte) {
    const int at = place_of_line(line, kSize, AlongK);
    return u32(at * kPitch + exchanged_byte(at, byte, Bits, Base, Shift));
  }

  /// One lane's way of reading the warp's rows, from `row0` on. All lines that it reads exchange
  /// the same bits.
  template <int Groups>
  struct Reader {
    int line, byte, exchange;

    static __device__ __forceinline__ Reader at(int row0, int lane) {
      const LanePlace first = lane_place(kSize, AlongK, IsA, lane);
      const int line = first.line + (AlongK ? row0 : 0);
      return {line * kPitch, first.byte + (AlongK ? 0 : row0 * kSize),
              exchanged_byte(line, 0, Bits, Base, Shift)};
    }
    __device__ __forceinline__ u32 address(u32 tile, int lines, int bytes) const {
      return tile + u32(line + lines * kPitch + ((byte + bytes) ^ exchange));
    }

    /// part[group][half of k] of chunk `chunk`.
    __device__ __forceinline__ void read(Fragment (&part)[Groups][kChunks * 2], u32 tile,
                                         int step) const {
      _Pragma("unroll") for (int c = 0; c < kChunks; ++c)
        read_chunk(part, tile, step * kChunks + c, c * 2);
    }

    __device__ __forceinline__ void read_chunk(Fragment (&part)[Groups][kChunks * 2], u32 tile,
                                               int chunk, int to) const {
      if constexpr (kSize == 8 && AlongK) {
        _Pragma("unroll") for (int g = 0; g < Groups; ++g)
          _Pragma("unroll") for (int half = 0; half < 2; ++half)
            load_shared_one(part[g][to + half], address(tile, g * 8, chunk * 64 + half * 32));
      } else if constexpr (kSize >= 4 && !AlongK) {
        _Pragma("unroll") for (int half = 0; half < 2; ++half)
          _Pragma("unroll") for (int g = 0; g < Groups; g += kNear) {
            const u32 from = address(tile, chunk * 8 + half * 4, g * 8 * kSize);
            if constexpr (kNear == 2) {
              Fragment two[2];  // neighbouring rows
              load_shared_two(two, from);
              part[g][to + half] = two[0];
              part[g + 1][to + half] = two[1];
            } else {
              load_shared_one(part[g][to + half], from);
            }
          }
      }
      //% if !double
      else {
        _Pragma("unroll") for (int g = 0; g < Groups; g += 2) {
          u32 r[4];
          if constexpr (AlongK)
            ldmatrix_x4(r, address(tile, g * 8, chunk * 32));
          else
            ldmatrix_x4_trans(r, address(tile, chunk * (32 / kSize), g * 8 * kSize));
          if constexpr (kSize == 1 && !AlongK) {
            // Registers hold two rows at two k: a row's bytes are every second one of two of them.
            _Pragma("unroll") for (int half = 0; half < 2; ++half) {
              part[g][to + half] = __byte_perm(r[half * 2], r[half * 2 + 1], 0x6420);
              part[g + 1][to + half] = __byte_perm(r[half * 2], r[half * 2 + 1], 0x7531);
            }
          } else {
            _Pragma("unroll") for (int i = 0; i < 4; ++i)
              part[g + (IsA ? i % 2 : i / 2)][to + (IsA ? i / 2 : i % 2)] = r[i];
          }
        }
      }
      //% end
      //% if tf32
      _Pragma("unroll") for (int g = 0; g < Groups; ++g)
        _Pragma("unroll") for (int half = 0; half < 2; ++half)
          part[g][to + half] = round_to_tf32(part[g][to + half]);
      //% end
    }
  };
};

using TileA = Tile<TypeA, true, kAlongKA, kBlockM, kBitsA, kBaseA, kShiftA>;
using TileB = Tile<TypeB, false, kAlongKB, kBlockN, kBitsB, kBaseB, kShiftB>;
