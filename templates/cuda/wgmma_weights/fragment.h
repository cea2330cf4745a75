// Codes in shared memory to words of the left operand, in k's own order. A lane's word of a step of
// 16 k holds elements 2q and 2q + 1 of eight, q being its place in a quad: of four bits byte q of a
// word of codes, of eight bits two neighbours of two words. So a quad reads the same 16 bytes and
// each lane takes its part, without a shuffle. Expects decode.h, swizzle.h, registers_ptx.h,
// read_ptx.h.
#pragma once

constexpr int kStepWords = 8 / kPairs;      // of codes, of a row in one step
constexpr int kReadSteps = 4 / kStepWords;  // that 16 bytes of codes are

//% if round_weights && zero != float
constexpr u32 kMinusZeros = 0x80008000;  // which leave every number that they are added to
//% end

/// 16 bytes of either row of a lane.
using Codes = u32[2][4];

/// Two neighbouring codes, which `selector` takes out of `low` and `high`, as numbers.
//% if codes != integer
KILN_DEVICE u32 neighbours(u32 low, u32 high, u32 selector, const Offset&) {
  //% if codes == e2m1
  // The product puts the first code at the top of the low half, the second one at that of the high.
  return floats_of(__byte_perm(low, high, selector) * 0x01001000);
  //% else
  return floats_of(__byte_perm(low, high, selector));
  //% end
}
//% else
KILN_DEVICE u32 neighbours(u32 low, u32 high, u32 selector, const Offset& offset) {
  const u32 taken = __byte_perm(low, high, selector);
  //% if code_bits == 4
  //% if type_a == bf16
  // The product puts the second code 16 bits above the first.
  constexpr u32 kTurned = kSignedCodes ? 0x00080008 : 0;
  return fma_pairs(masked_bits(taken * 0x1001, 0x000f000f, 0x43004300 | kTurned), kOnes,
                   offset.pair);
  //% else
  // The second code stays where it is in its byte, and counts sixteenths.
  constexpr u32 kTurned = kSignedCodes ? 0x00800008 : 0;
  return fma_pairs(masked_bits(taken, 0x00f0000f, 0x64006400 | kTurned), 0x2c003c00,
                   __byte_perm(offset.pair, offset.pair_of_16, 0x7610));
  //% end
  //% else
  //% if type_a == bf16
  // Seven bits fit behind the exponent; the sign, which counts -128, is the difference of 128 and
  // 256.
  const u32 number = fma_pairs(masked_bits(taken, 0x007f007f, 0x43004300), kOnes,
                               masked_bits(taken, 0x00800080, 0xc300c300));
  //% if zeros
  return fma_pairs(number, kOnes, offset.pair);
  //% else
  return number;
  //% end
  //% else
  return fma_pairs(masked_bits(taken, 0x00ff00ff, 0x64806480), kOnes, offset.pair);
  //% end
  //% end
}
//% end

/// Where a lane's codes lie in a stage, as the copy engine swizzled them, and which it takes.
struct CodeLane {
  u32 line, turn;  // byte of the first row; what exchanges the row's units of 16 bytes
  u32 selector;

  static __device__ __forceinline__ CodeLane of(u32 row_offset, int thread) {
    const int row = int(row_offset) + thread / 32 * 16 + thread % 32 / 4;
    const u32 place = u32(thread) % 4;
    CodeLane lane;
    lane.line = u32(row * kCodePitch);
    lane.turn = swizzled_byte(row, 0, kCodePitch) - lane.line;
    //% if code_bits == 4
    //% if type_a == bf16 || codes == e2m1
    lane.selector = 0x4440 | place;  // zeros above the byte
    //% else
    lane.selector = place | place << 8;
    //% end
    //% end
    //% if code_bits == 8 && codes == integer
    lane.selector = place * 2 | (place * 2 + 1) << 8;
    //% end
    //% if codes == e4m3
    lane.selector = place * 2 << 4 | (place * 2 + 1) << 12;  // to the high bytes of halves
    //% end
    return lane;
  }

  /// Read `read` of a stage. Eight rows on the units are exchanged alike.
  __device__ __forceinline__ void fetch(Codes& to, u32 stage, int read) const {
    _Pragma("unroll") for (int half = 0; half < 2; ++half)
      load_shared_words(to[half],
                        stage + line + u32(half * 8 * kCodePitch) + (turn ^ u32(read * 16)));
  }

  //% if round_weights
  /// The words of step `step` of those that the codes are, times the scales of columns from
  /// `column` of the lane on in group `group`.
  __device__ __forceinline__ void decode(u32 (&to)[4], const Codes& codes, int step,
                                         const Factors& factors, int column, int group) const {
    _Pragma("unroll") for (int i = 0; i < 4; ++i) {
      const u32* word = codes[i % 2] + (step * 2 + i / 2) * (kStepWords / 2);
      const int of = column + i % 2;
      const Offset& offset = factors.offset[of][group];
      //% if code_bits == 4
      const u32 numbers = neighbours(word[0], 0, selector, offset);
      //% else
      const u32 numbers = neighbours(word[0], word[1], selector, offset);
      //% end
      //% if zero == float
      to[i] = fma_pairs(numbers, factors.scale[of][group], factors.rest[of][group]);
      //% else
      to[i] = fma_pairs(numbers, factors.scale[of][group], kMinusZeros);
      //% end
      pin_word(to[i]);
    }
  }
  //% else
  /// The words of step `step` of those that the codes are.
  __device__ __forceinline__ void decode(u32 (&to)[4], const Codes& codes, int step,
                                         const Offset& first, const Offset& second) const {
    _Pragma("unroll") for (int i = 0; i < 4; ++i) {
      const u32* word = codes[i % 2] + (step * 2 + i / 2) * (kStepWords / 2);
      const Offset& offset = i % 2 == 0 ? first : second;
      //% if code_bits == 4
      to[i] = neighbours(word[0], 0, selector, offset);
      //% else
      to[i] = neighbours(word[0], word[1], selector, offset);
      //% end
      pin_word(to[i]);
    }
  }
  //% end
};
