// From memory to shared memory: a tile's rows of one operand, kDepthBytes of k each, in units of 16
// bytes along k. Where in a row a unit lies is swizzled, so that lanes that read one column of
// units meet different banks. Expects device.h.
#pragma once

constexpr int kUnits = kDepthBytes / 16;  // of one row

//% if !turned_a || !turned_b
KILN_DEVICE u32 unit_address(u32 row, u32 unit) {
  //% if swizzle
  return row * kRowBytes + (unit ^ (row >> kSwizzleShift) % kUnits) * 16;
  //% else
  return row * kRowBytes + unit * 16;
  //% end
}
//% end

//% if along_a && !direct || along_b && !direct
/// A k-major operand, read Width bytes at a time.
template <int Rows, int Width>
struct AlongK {
  static constexpr int kCount = Rows * kUnits / kThreads;                 // units of a thread
  static constexpr int kLoads = kCount * (16 / Width), kStores = kCount;  // instructions
  static_assert(Rows * kUnits % kThreads == 0, "threads share a tile's units evenly");
  U32x4 unit[kCount];

  static KILN_MEMBER u32 offset_of(u32 slot, u32 pitch) {
    return slot / kUnits * pitch + slot % kUnits * 16;
  }

  KILN_MEMBER void load(Buffer from, u32 pitch, u32 thread, [[maybe_unused]] i32 k_left) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      u32 words[4] = {0, 0, 0, 0};
      KILN_UNROLL for (int p = 0; p < 16; p += Width) {
        u32 offset = offset_of(slot, pitch) + p;
        //% if ragged_k
        if (i32(slot % kUnits * 16 + p) >= k_left * kElement) offset = kOutside;
        //% end
        u32 piece[(Width + 3) / 4];
        buffer_load<Width>(piece, from, offset);
        KILN_UNROLL for (int w = 0; w < (Width + 3) / 4; ++w) words[p / 4 + w] |= piece[w]
                                                                                  << (p % 4 * 8);
      }
      KILN_UNROLL for (int w = 0; w < 4; ++w) unit[i][w] = words[w];
    }
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      ds_write_b128(to + unit_address(slot / kUnits, slot % kUnits), unit[i]);
    }
  }
};
//% end
//% if !along_a && !turned_a || !along_b && !turned_b || edges

/// Stored elements as plain numbers, so that they can be moved about.
//% if element == 1
using Raw = u8;
//% end
//% if element == 2
using Raw = u16;
//% end
//% if element == 4
using Raw = u32;
//% end
//% if element == 8
using Raw = u64;
//% end
//% end
//% if !along_a && !turned_a || !along_b && !turned_b
constexpr int kPerUnit = 16 / kElement;  // of them

/// An operand whose rows are neighbours in memory: each thread takes Width bytes of rows for the k
/// of one unit, and transposes them in its registers.
template <int Rows, int Width>
struct AcrossK {
  static constexpr int kVector = Width / kElement;  // rows
  static constexpr int kGroups = Rows / kVector;
  static constexpr int kCount = kGroups * kUnits / kThreads;
  static constexpr int kLoads = kCount * kPerUnit, kStores = kCount * kVector;  // instructions
  static_assert(kGroups * kUnits % kThreads == 0, "threads share a tile's rows evenly");
  static constexpr int kWords = (Width + 3) / 4;
  u32 words[kCount][kPerUnit][kWords];

  //% if lists
  /// Nothing is loaded behind a line's rows: where the pitch is no multiple of Width, loads might
  /// straddle the end of the buffer.
  KILN_MEMBER void load(Buffer from, u32 pitch, u32 thread, i32 row_bytes) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, rows = slot % kGroups, k = slot / kGroups * kPerUnit;
      const u32 first = i32(rows * Width) < row_bytes ? k * pitch + rows * Width : kOutside;
      KILN_UNROLL for (int e = 0; e < kPerUnit; ++e)
          buffer_load<Width>(words[i][e], from, first + e * pitch);
    }
  }
  //% else
  KILN_MEMBER void load(Buffer from, u32 pitch, u32 thread, i32) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, rows = slot % kGroups, k = slot / kGroups * kPerUnit;
      KILN_UNROLL for (int e = 0; e < kPerUnit; ++e)
          buffer_load<Width>(words[i][e], from, (k + e) * pitch + rows * Width);
    }
  }
  //% end
  KILN_MEMBER void store(u32 to, u32 thread) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, rows = slot % kGroups, unit = slot / kGroups;
      KILN_UNROLL for (int v = 0; v < kVector; ++v) {
        Raw column[kPerUnit];
        KILN_UNROLL for (int e = 0; e < kPerUnit; ++e) column[e] = element(words[i][e], v);
        ds_write_b128(to + unit_address(rows * kVector + v, unit), bits_as<U32x4>(column));
      }
    }
  }

 private:
  static KILN_MEMBER Raw element(const u32 (&line)[kWords], int v) {
    if constexpr (kElement == 8)
      return u64(line[2 * v]) | u64(line[2 * v + 1]) << 32;
    else
      return Raw(line[v * kElement / 4] >> (v * kElement % 4 * 8));
  }
};
//% end
//% if direct && !turned_a || direct && !turned_b

/// An operand whose rows lie along k, straight into shared memory: lanes write side by side, so the
/// swizzle is undone by what each of them reads.
template <int Rows>
struct Direct {
  static constexpr int kParts = 16 / kDirectBytes;
  static constexpr int kCount = Rows * kUnits * kParts / kThreads;
  static constexpr int kLoads = kCount;  // instructions
  static_assert(Rows * kUnits * kParts % kThreads == 0, "threads share a tile evenly");

  static KILN_MEMBER void load(u32 to, Buffer from, u32 pitch, u32 thread,
                               [[maybe_unused]] i32 k_left) {
    const u32 wave = uniform(thread / 64) * 64;
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, row = slot / (kUnits * kParts);
      const u32 place = unit_address(row, slot / kParts % kUnits) - row * kRowBytes;
      const u32 along = place + slot % kParts * kDirectBytes;
      u32 offset = row * pitch + along;
      //% if ragged_k
      if (i32(along) >= k_left * kElement) offset = kOutside;
      //% end
      buffer_load_to_shared<kDirectBytes>(to + (wave + i * kThreads) * kDirectBytes, from, offset);
    }
  }
};
//% end
//% if edges && !turned_a || edges && !turned_b

/// A stage element by element into shared memory. A loop, whose registers no main loop misses.
template <int Rows, typename From>
KILN_DEVICE void copy_elements(u32 to, const From& from, u32 thread) {
  _Pragma("unroll 1") for (u32 slot = thread; slot < Rows * kUnits; slot += kThreads) {
    const u32 row = From::kAlong ? slot / kUnits : slot % Rows;
    const u32 unit = From::kAlong ? slot % kUnits : slot / Rows;
    Raw some[16 / kElement];
    KILN_UNROLL for (int e = 0; e < 16 / kElement; ++e) some[e] =
        from.element(row, unit * (16 / kElement) + e);
    ds_write_b128(to + unit_address(row, unit), bits_as<U32x4>(some));
  }
}
//% end
