// Operands of a block's products on their way from memory to shared memory, where they keep the
// type and the order that they have in memory. Expects types.h, ampere_ptx.h, and from the
// parameters the shape.
#pragma once

/// Elements that are read or written at once.
template <typename T, int Count>
struct alignas(Count * sizeof(T)) Some {
  T x[Count];
};

/// One operand. `Flat`: the products of a block are one run in memory and in shared memory.
/// Otherwise each line is copied by itself, to lines `Pitch` elements apart and products `Apart`
/// elements apart. `Dense`: lines and products are adjacent in memory.
template <typename T, bool AlongK, int Rows, bool Flat, bool Dense, int Pitch, int Apart>
struct Operand {
  static constexpr int kRun = AlongK ? kK : Rows, kLines = AlongK ? Rows : kK;
  static constexpr int kEach = kWidth / int(sizeof(T));  // elements of a copy
  static constexpr int kCopiesOfLine =
      Flat ? kProducts * kRun * kLines / kEach : (kRun + kEach - 1) / kEach;
  static constexpr int kCopies = Flat ? kCopiesOfLine : kCopiesOfLine * kLines * kProducts;
  static constexpr int kOfThread = (kCopies + kThreads - 1) / kThreads;
  static constexpr bool kWhole = Flat || kRun % kEach == 0;  // every copy is of kEach elements
  /// Of a stage, with what alignment leaves behind it.
  static constexpr int kBytes = (kProducts * Apart * int(sizeof(T)) + 15) / 16 * 16;

  /// One copy: where its elements are in memory and in shared memory, and how many exist.
  struct Copy {
    i64 from;
    int to, count;
  };
  /// Only the first `products` exist.
  static __device__ __forceinline__ Copy copy_at(int number, i64 ld, i64 stride, int products) {
    if constexpr (Flat) {
      const int at = number * kEach, end = products * kRun * kLines;
      return {at, at, max(0, min(kEach, end - at))};
    } else {
      const int line = number / kCopiesOfLine, x = (number - line * kCopiesOfLine) * kEach;
      const int product = line / kLines, own = line - product * kLines;
      const i64 from = Dense && kWhole ? i64(number) * kEach : product * stride + own * ld + x;
      const int count = kWhole ? kEach : min(kEach, kRun - x);
      return {from, product * Apart + own * Pitch + x, product < products ? count : 0};
    }
  }

  //% if copy == async
  /// Sends the products from `from` on to shared memory at `to`.
  static __device__ __forceinline__ void send(u32 to, const T* from, i64 ld, i64 stride,
                                              int products, int thread) {
    _Pragma("unroll 8") for (int i = 0; i < kOfThread; ++i) {
      const int number = i * kThreads + thread;
      if (kCopies % kThreads != 0 && number >= kCopies) break;
      const Copy copy = copy_at(number, ld, stride, products);
      const u32 place = to + u32(copy.to * int(sizeof(T)));
      const int bytes = copy.count * int(sizeof(T));
      if constexpr (kWidth == 4) cp_async_4(place, from + copy.from, bytes);
      if constexpr (kWidth == 8) cp_async_8(place, from + copy.from, bytes);
      if constexpr (kWidth == 16) cp_async_16(place, from + copy.from, bytes);
    }
  }
  //% else
  /// Brings the products from `from` on to shared memory at `to`, some copies at a time in flight.
  static __device__ __forceinline__ void bring(T* to, const T* from, i64 ld, i64 stride,
                                               int products, int thread) {
    constexpr int kTogether = kOfThread < 8 ? kOfThread : 8;
    using Read = Some<T, kEach>;
    _Pragma("unroll 1") for (int first = thread; first < kCopies; first += kTogether * kThreads) {
      Read held[kTogether];
      _Pragma("unroll") for (int i = 0; i < kTogether; ++i) {
        const Copy copy = copy_at(first + i * kThreads, ld, stride, products);
        if (copy.count > 0) held[i] = *reinterpret_cast<const Read*>(from + copy.from);
      }
      _Pragma("unroll") for (int i = 0; i < kTogether; ++i) {
        const Copy copy = copy_at(first + i * kThreads, ld, stride, products);
        if (copy.count > 0) *reinterpret_cast<Read*>(to + copy.to) = held[i];
      }
    }
  }
  //% end
};

using OperandA = Operand<TypeA, kAlongKA, kM, kFlatA, kDenseA, kPitchA, kApartA>;
using OperandB = Operand<TypeB, kAlongKB, kN, kFlatB, kDenseB, kPitchB, kApartB>;
constexpr int kStageBytes = OperandA::kBytes + OperandB::kBytes;
