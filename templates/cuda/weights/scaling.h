// Scales and zero points of a lane's columns of op(B): fetched a chunk before they are needed.
// Expects decode.h, convert.h.
#pragma once

constexpr int kLaneColumns = kTilesM * 2;
//% if whole_column
constexpr int kGroups = 1;  // that a chunk has of a column
//% else
constexpr int kGroups = kDecodeK / kGroupK;
//% end

//% if gate
/// Which column of op(B) is line `line` of a warp's. The first half of its lines is the factor that
/// goes through the gate, the second the other, of the same columns of D, of which `column0` is the
/// warp's first. A column that does not exist is the last one.
KILN_DEVICE int column_of_b(const KilnGpuArgs& args, int column0, int line) {
  constexpr int kHalf = kTilesM * 8;
  const int column = min(column0 + line % kHalf, int(args.n) - 1);
  //% if gate_order == stacked
  return line < kHalf ? column : int(args.n) + column;
  //% else
  return 2 * column + line / kHalf;
  //% end
}
//% end

/// As they come from memory: a conversion would wait for it.
struct Fetched {
  TypeScale scale[kLaneColumns][kGroups];
  //% if zeros
  TypeZero zero[kLaneColumns][kGroups];
  //% end
};

//% if round_weights
/// As they are used. Scales are rounded to A's type and stand twice in a word, and so does what is
/// added to scaled numbers.
struct Factors {
  u32 scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
  //% if zero == float
  u32 rest[kLaneColumns][kGroups];  // of the zero point, whose whole part is in the offset: scaled
  //% end
};
//% else
/// As they are used.
struct Factors {
  float scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
  //% if zero == float
  float rest[kLaneColumns][kGroups];  // of the zero point, whose whole part is in the offset
  //% end
};
//% end

struct Scaling {
  const TypeScale* scales;
  //% if zeros
  const TypeZero* zeros;
  //% end
  u32 first[kLaneColumns];  // group of each column, of all groups
  int groups;               // of a column

  /// `column0`: the warp's first column. Columns that do not exist repeat the last one.
  static __device__ __forceinline__ Scaling at(const KilnGpuArgs& args, i64 batch, int column0,
                                               int lane) {
    Scaling s;
    //% if whole_column
    s.groups = 1;
    //% else
    s.groups = int(args.k) / kGroupK;
    //% end
    s.scales = static_cast<const TypeScale*>(args.scale_b);
    //% if zeros
    s.zeros = static_cast<const TypeZero*>(args.zero_b);
    //% end
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
      //% if gate
      const int columns = 2 * int(args.n), column = column_of_b(args, column0, c * 8 + lane / 4);
      //% if squares
      const int lines = (columns + kGroupColumns - 1) / kGroupColumns;
      s.first[c] = u32(int(batch) * lines + column / kGroupColumns) * u32(s.groups);
      //% else
      s.first[c] = u32(int(batch) * columns + column) * u32(s.groups);
      //% end
      //% else
      const int column = min(column0 + c * 8 + lane / 4, int(args.n) - 1);
      //% if squares
      const int lines = (int(args.n) + kGroupColumns - 1) / kGroupColumns;
      s.first[c] = u32(int(batch) * lines + column / kGroupColumns) * u32(s.groups);
      //% else
      s.first[c] = u32(int(batch) * int(args.n) + column) * u32(s.groups);
      //% end
      //% end
    }
    return s;
  }

  /// Those of chunk `chunk` of all of k. Groups beyond k have scale 0.
  __device__ __forceinline__ void fetch(Fetched& to, int chunk) const {
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g) {
      const int group = chunk * kGroups + g;
      const bool exists = group < groups;
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        const u32 at = first[c] + u32(exists ? group : 0);
        to.scale[c][g] = exists ? scales[at] : TypeScale{};
        //% if zeros
        //% if zero == int && code_bits == 4
        to.zero[c][g] = exists ? zeros[at / 2] : TypeZero{};
        //% else
        to.zero[c][g] = exists ? zeros[at] : TypeZero{};
        //% end
        //% end
      }
    }
  }

  __device__ __forceinline__ Factors factors(const Fetched& from, int chunk) const {
    Factors f;
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        //% if round_weights
        const float scale = to_real(from.scale[c][g]);
        f.scale[c][g] = pack_two(scale, scale, TypeA{});
        //% else
        f.scale[c][g] = to_real(from.scale[c][g]);
        //% end
        //% if zero == none
        f.offset[c][g] = offset_of(0);
        //% end
        //% if zero == int
        //% if code_bits == 4
        const u32 at = first[c] + u32(chunk * kGroups + g);
        const int code = from.zero[c][g] >> at % 2 * 4 & 15;
        f.offset[c][g] = offset_of(kSignedCodes ? (code ^ 8) - 8 : code);
        //% else
        f.offset[c][g] = offset_of(from.zero[c][g]);
        //% end
        //% end
        //% if zero == float
        const float zero = to_real(from.zero[c][g]);
        constexpr int kLeast = kSignedCodes ? -(1 << (kCodeBits - 1)) : 0;
        const int whole = max(kLeast, min(float_to_int(zero), kLeast + (1 << kCodeBits) - 1));
        f.offset[c][g] = offset_of(whole);
        //% if round_weights
        // Of the scale as it was rounded: then it is no larger than the weight that it leads to,
        // nor is its error.
        const float rest = (float(whole) - zero) * to_real(TypeA{u16(f.scale[c][g])});
        f.rest[c][g] = pack_two(rest, rest, TypeA{});
        //% else
        f.rest[c][g] = zero - float(whole);
        //% end
        //% end
      }
    return f;
  }
};
