// Operands that are not k-major, transposed on their way from shared memory to registers. In shared
// memory they lie as they do outside: a line of rows for each k. 16 lanes read 16 rows of a few
// lines together, and each gets one row of them. Expects turned_gcn.h.
#pragma once

//% if turned
constexpr int kReadLines = 8 / kElement;     // that 16 lanes read together
constexpr int kLineLanes = 16 / kReadLines;  // that read one of them, 8 bytes each
constexpr int kChunkBytes = 16 * kElement;   // 16 rows of a line
static_assert(kElement <= 2, "there are such reads for elements of one and two bytes");

//% if element == 2
KILN_DEVICE U32x2 read_turned(u32 at) { return ds_read_b64_tr_b16(at); }
//% else
KILN_DEVICE U32x2 read_turned(u32 at) { return ds_read_b64_tr_b8(at); }
//% end

/// Where 16 rows of a line lie. Lines that 32 lanes read at once meet different banks.
template <int Rows>
KILN_DEVICE u32 chunk_address(u32 line, u32 chunk) {
  constexpr u32 kChunks = Rows / 16;
  // Several short lines fit all banks at once, and need no exchange among themselves.
  constexpr u32 kTogether = kChunks < 2 * kReadLines ? 2 * kReadLines / kChunks : 1;
  static_assert((kChunks & (kChunks - 1)) == 0, "chunks are exchanged by their number's bits");
  const u32 exchange = line % kReadLines / kTogether * 2 + line / (2 * kReadLines) % 2;
  return (line * kChunks + (chunk ^ exchange % kChunks)) * kChunkBytes;
}

/// From row (tile's, this lane's among them) and unit of k: 16 bytes of k of that row.
template <int Rows>
KILN_DEVICE U32x4 read_unit_turned(u32 base, u32 row, u32 unit) {
  const u32 lane = row % 16;
  U32x4 value;
  KILN_UNROLL for (int half = 0; half < 2; ++half) {
    const u32 line = (unit * 2 + half) * kReadLines + lane / kLineLanes;
    const U32x2 part =
        read_turned(base + chunk_address<Rows>(line, row / 16) + lane % kLineLanes * 8);
    value[half * 2] = part[0];
    value[half * 2 + 1] = part[1];
  }
  return value;
}

//% if !direct
/// A stage's lines through registers, read Width bytes at a time.
template <int Rows, int Width>
struct Turned {
  static constexpr int kLineUnits = Rows * kElement / 16;
  static constexpr int kCount = kTileK * kLineUnits / kThreads;
  static constexpr int kLoads = kCount * (16 / Width), kStores = kCount;  // instructions
  static_assert(kTileK * kLineUnits % kThreads == 0, "threads share a tile's units evenly");
  U32x4 unit[kCount];

  //% if lists
  /// Nothing is loaded behind a line's rows, as in stage.h.
  KILN_MEMBER void load(Buffer from, u32 pitch, u32 thread, i32 row_bytes) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, row = slot % kLineUnits * 16;
      const u32 line = slot / kLineUnits * pitch;
      u32 words[4] = {0, 0, 0, 0};
      KILN_UNROLL for (int p = 0; p < 16; p += Width) {
        u32 piece[(Width + 3) / 4];
        buffer_load<Width>(piece, from, i32(row + p) < row_bytes ? line + row + p : kOutside);
        KILN_UNROLL for (int w = 0; w < (Width + 3) / 4; ++w) words[p / 4 + w] |= piece[w]
                                                                                  << (p % 4 * 8);
      }
      KILN_UNROLL for (int w = 0; w < 4; ++w) unit[i][w] = words[w];
    }
  }
  //% else
  KILN_MEMBER void load(Buffer from, u32 pitch, u32 thread, i32) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      const u32 offset = slot / kLineUnits * pitch + slot % kLineUnits * 16;
      u32 words[4] = {0, 0, 0, 0};
      KILN_UNROLL for (int p = 0; p < 16; p += Width) {
        u32 piece[(Width + 3) / 4];
        buffer_load<Width>(piece, from, offset + p);
        KILN_UNROLL for (int w = 0; w < (Width + 3) / 4; ++w) words[p / 4 + w] |= piece[w]
                                                                                  << (p % 4 * 8);
      }
      KILN_UNROLL for (int w = 0; w < 4; ++w) unit[i][w] = words[w];
    }
  }
  //% end
  KILN_MEMBER void store(u32 to, u32 thread) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, at = slot % kLineUnits * 16;
      const u32 chunk = chunk_address<Rows>(slot / kLineUnits, at / kChunkBytes);
      ds_write_b128(to + chunk + at % kChunkBytes, unit[i]);
    }
  }
};
//% if edges
/// A stage element by element into shared memory, as in stage.h.
template <int Rows, typename From>
KILN_DEVICE void copy_elements_turned(u32 to, const From& from, u32 thread) {
  constexpr u32 kLineUnits = Rows * kElement / 16;
  _Pragma("unroll 1") for (u32 slot = thread; slot < kTileK * kLineUnits; slot += kThreads) {
    const u32 line = slot / kLineUnits, at = slot % kLineUnits * 16;
    Raw some[16 / kElement];
    KILN_UNROLL for (int e = 0; e < 16 / kElement; ++e) some[e] =
        from.element(at / kElement + e, line);
    const u32 chunk = chunk_address<Rows>(line, at / kChunkBytes);
    ds_write_b128(to + chunk + at % kChunkBytes, bits_as<U32x4>(some));
  }
}
//% end
//% else
/// A stage's lines straight into shared memory: what a lane reads undoes the exchange of chunks.
template <int Rows>
struct TurnedDirect {
  static constexpr int kLineBytes = Rows * kElement, kLineUnits = kLineBytes / 16;
  static constexpr int kCount = kTileK * kLineUnits / kThreads;
  static constexpr int kLoads = kCount;  // instructions
  static_assert(kTileK * kLineUnits % kThreads == 0, "threads share a tile's units evenly");
  static_assert(kDirectBytes == 16, "a lane brings a whole unit");

  static KILN_MEMBER void load(u32 to, Buffer from, u32 pitch, u32 thread, i32) {
    const u32 wave = uniform(thread / 64) * 64;
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, line = slot / kLineUnits;
      const u32 at = slot % kLineUnits * 16;
      const u32 rows = chunk_address<Rows>(line, at / kChunkBytes) - line * kLineBytes;
      buffer_load_to_shared<16>(to + (wave + i * kThreads) * 16, from,
                                line * pitch + rows + at % kChunkBytes);
    }
  }
};
//% end
//% end
