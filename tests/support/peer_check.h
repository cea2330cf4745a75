// One run of a peer on small exact values, beside a plain triple loop.
#pragma once

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "bench/peer.h"
#include "generator/problem/extent.h"

namespace kiln::test {

inline float from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

/// Values of small magnitude that every type holds exactly, so that sums are exact as well.
inline void store(DType t, std::byte* at, std::int64_t i, int value) {
  const float f = float(value);
  switch (t) {
    case fp32:
      std::memcpy(at + 4 * i, &f, 4);
      break;
    case fp64: {
      const double d = value;
      std::memcpy(at + 8 * i, &d, 8);
      break;
    }
    case bf16: {
      std::uint32_t bits;
      std::memcpy(&bits, &f, 4);
      const auto high = std::uint16_t(bits >> 16);
      std::memcpy(at + 2 * i, &high, 2);
      break;
    }
    case s8:
    case u8:
      at[i] = std::byte(std::uint8_t(std::int8_t(value)));
      break;
    case s32:
      std::memcpy(at + 4 * i, &value, 4);
      break;
    default:
      FAIL() << "no peer here takes " << name(t);
  }
}

inline double load(DType t, const std::byte* at, std::int64_t i) {
  switch (t) {
    case fp32: {
      float f;
      std::memcpy(&f, at + 4 * i, 4);
      return f;
    }
    case fp64: {
      double d;
      std::memcpy(&d, at + 8 * i, 8);
      return d;
    }
    case bf16: {
      std::uint16_t h;
      std::memcpy(&h, at + 2 * i, 2);
      return from_bf16(h);
    }
    case s8:
      return std::int8_t(at[i]);
    case u8:
      return std::uint8_t(at[i]);
    case s32: {
      std::int32_t v;
      std::memcpy(&v, at + 4 * i, 4);
      return v;
    }
    default:
      break;
  }
  return NAN;
}

inline std::int64_t index(const Matrix& x, std::int64_t ld, std::int64_t row, std::int64_t col) {
  const bool rows_apart = (x.order == Order::row_major) != x.transposed;
  return rows_apart ? row * ld + col : col * ld + row;
}

struct PeerData {
  explicit PeerData(const Gemm& g) : gemm(g) {
    std::mt19937 random(7);
    const auto fill = [&](Operand which, DType t, int low) {
      std::vector<std::byte> bytes(std::size_t(span(g, which) * size_of(t)) + 64);
      std::uniform_int_distribution<int> pick(low, 2);
      for (std::int64_t i = 0; i < span(g, which); ++i) store(t, bytes.data(), i, pick(random));
      return bytes;
    };
    a = fill(Operand::a, g.a.dtype, g.a.dtype == u8 ? 0 : -2);
    b = fill(Operand::b, g.b.dtype, g.b.dtype == u8 ? 0 : -2);
    // All ones: NaN in floating types, -1 in s32.
    d.assign(std::size_t(span(g, Operand::d) * size_of(g.d.dtype)) + 64, std::byte{0xff});
  }
  double expected(std::int64_t batch, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t p = 0; p < gemm.k; ++p)
      sum +=
          load(gemm.a.dtype, a.data(), batch * gemm.stride_a() + index(gemm.a, gemm.lda(), i, p)) *
          load(gemm.b.dtype, b.data(), batch * gemm.stride_b() + index(gemm.b, gemm.ldb(), p, j));
    return sum;
  }
  /// Elements of D that differ from the exact product, or that changed between its rows.
  int wrong() const {
    int count = 0;
    std::set<std::int64_t> written;
    for (std::int64_t t = 0; t < gemm.batch; ++t)
      for (std::int64_t i = 0; i < gemm.m; ++i)
        for (std::int64_t j = 0; j < gemm.n; ++j) {
          const std::int64_t at = t * gemm.stride_d() + index(gemm.d, gemm.ldd(), i, j);
          written.insert(at);
          count += !(load(gemm.d.dtype, d.data(), at) == expected(t, i, j));
        }
    const int bytes = size_of(gemm.d.dtype);
    for (std::int64_t at = 0; at < std::int64_t(d.size()); ++at)
      count += !written.contains(at / bytes) && d[std::size_t(at)] != std::byte{0xff};
    return count;
  }
  Gemm gemm;
  std::vector<std::byte> a, b, d;
};

/// Runs the peer once; false when it does not take the problem.
inline bool check(Peer& peer, const Gemm& gemm, int threads) {
  if (!peer.supports(gemm, threads)) return false;
  auto kernel = peer.prepare(gemm, threads);
  if (!kernel) {
    EXPECT_EQ(kernel.error().code, ErrorCode::unsupported);
    EXPECT_THAT(kernel.error().message, testing::HasSubstr(text(gemm)));
    return false;
  }
  PeerData data(gemm);
  std::vector<std::byte> packed((*kernel)->packed_b_bytes() + 64);
  Operands operands{.a = data.a.data(), .b = data.b.data(), .d = data.d.data()};
  if ((*kernel)->packed_b_bytes()) {
    void* aligned = packed.data();
    std::size_t room = packed.size();
    std::align(64, (*kernel)->packed_b_bytes(), aligned, room);
    (*kernel)->pack_b(data.b.data(), aligned);
    operands.b = aligned;
  }
  (*kernel)->run(operands);
  EXPECT_EQ(data.wrong(), 0) << peer.name() << ": " << text(gemm) << ", " << threads << " threads";
  return true;
}

inline std::vector<Gemm> layouts(std::int64_t m, std::int64_t n, std::int64_t k, DType t) {
  std::vector<Gemm> all;
  for (const Gemm& g : {Gemm::row_major(m, n, k, t), Gemm::column_major(m, n, k, t)})
    for (const Gemm& h : {g, g.transpose_a(), g.transpose_b(), g.transpose_a().transpose_b()}) {
      all.push_back(h);
      Gemm spaced = h;
      spaced.a.ld = h.lda() + 3;
      spaced.b.ld = h.ldb() + 5;
      spaced.c.ld = spaced.d.ld = h.ldd() + 2;
      all.push_back(spaced);
    }
  return all;
}

}  // namespace kiln::test
