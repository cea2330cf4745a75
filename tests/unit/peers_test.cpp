// Every installed peer against a plain triple loop, on the layouts it claims to support.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>

#include "bench/environment.h"
#include "bench/peer.h"
#include "bench/self.h"
#include "generator/problem/extent.h"
#include "support/temp_dir.h"

namespace kiln::peers_test {

const PeerSet& peers() {
  static const PeerSet set = load_peers();
  return set;
}

float from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

/// Values of small magnitude that every type holds exactly, so that sums are exact as well.
void store(DType t, std::byte* at, std::int64_t i, int value) {
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

double load(DType t, const std::byte* at, std::int64_t i) {
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

std::int64_t index(const Matrix& x, std::int64_t ld, std::int64_t row, std::int64_t col) {
  const bool rows_apart = (x.order == Order::row_major) != x.transposed;
  return rows_apart ? row * ld + col : col * ld + row;
}

struct Data {
  explicit Data(const Gemm& g) : gemm(g) {
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
bool check(Peer& peer, const Gemm& gemm, int threads) {
  if (!peer.supports(gemm, threads)) return false;
  auto kernel = peer.prepare(gemm, threads);
  if (!kernel) {
    EXPECT_EQ(kernel.error().code, ErrorCode::unsupported);
    EXPECT_THAT(kernel.error().message, testing::HasSubstr(text(gemm)));
    return false;
  }
  Data data(gemm);
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

std::vector<Gemm> layouts(std::int64_t m, std::int64_t n, std::int64_t k, DType t) {
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

TEST(Peers, EachIsPresentOrAbsentWithAReason) {
  std::map<std::string, int> seen;
  for (const auto& peer : peers().present) {
    ++seen[peer->name()];
    EXPECT_FALSE(peer->note().empty()) << peer->name();
  }
  for (const auto& absent : peers().absent) {
    ++seen[absent.name];
    EXPECT_FALSE(absent.reason.empty()) << absent.name;
  }
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name;
  for (const char* name : {"openblas", "blis", "libxsmm", "eigen"})
    EXPECT_TRUE(seen.contains(name)) << name;
  EXPECT_TRUE(seen.contains("onednn") || seen.contains("onednn_matmul"));
}

TEST(Peers, AreRightInEveryLayout) {
  std::map<std::string, int> ran;
  for (const auto& peer : peers().present) {
    for (DType t : {fp32, fp64, bf16, s8, u8})
      for (const Gemm& gemm : layouts(13, 9, 17, t)) ran[peer->name()] += check(*peer, gemm, 1);
    if (peer->name() == "onednn_packed") {
      EXPECT_EQ(ran[peer->name()], 0) << "it races on packed problems only";
    } else {
      EXPECT_GT(ran[peer->name()], 3) << peer->name();
    }
  }
}

TEST(Peers, AreRightOnVectorsBatchesAndTwoThreads) {
  for (const auto& peer : peers().present)
    for (DType t : {fp32, fp64, bf16, s8, u8}) {
      for (const Gemm& gemm : layouts(1, 33, 20, t)) check(*peer, gemm, 2);
      for (const Gemm& gemm : layouts(33, 1, 20, t)) check(*peer, gemm, 2);
      check(*peer, Gemm::row_major(64, 48, 40, t).transpose_b(), 2);
      check(*peer, Gemm::row_major(6, 5, 4, t).batched(3), 1);
    }
}

TEST(Peers, PackedWeightsAreRightAtSeveralAddresses) {
  for (const auto& peer : peers().present)
    for (DType t : {fp32, bf16, s8, u8}) {
      const Gemm gemm = Gemm::row_major(10, 50, 30, t).transpose_b().with_packed_b();
      const bool ran = check(*peer, gemm, 1) && check(*peer, gemm, 2);
      EXPECT_EQ(ran, peer->supports(gemm, 1)) << peer->name() << " " << name(t);
      if (peer->name() == "onednn_packed") {
        EXPECT_TRUE(ran) << name(t);
      }
    }
}

TEST(Peers, RefuseWhatTheyDoNotDo) {
  for (const auto& peer : peers().present) {
    EXPECT_FALSE(peer->supports(Gemm::row_major(8, 8, 8).with_activation(Activation::relu), 1));
    EXPECT_FALSE(peer->supports(Gemm::row_major(0, 8, 8), 1));
    const DType missing = peer->name().starts_with("onednn") ? fp64 : bf16;
    EXPECT_FALSE(peer->supports(Gemm::row_major(8, 8, 8, missing), 1)) << peer->name();
  }
}

TEST(Environment, EveryPeerLoadsAndIsRightInThePreparedEnvironment) {
  // Libraries read their environment as they load, so only a fresh process shows it.
  if (in_peer_environment()) {
    for (const auto& peer : peers().present) check(*peer, Gemm::row_major(40, 30, 20), 2);
    return;
  }
  PeerEnvironment environment = peer_environment();
  environment.set["GTEST_FILTER"] =
      "Environment.EveryPeerLoadsAndIsRightInThePreparedEnvironment:Peers.AreRightInEveryLayout";
  const auto child = run_self({}, apply(environment), true);
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_EQ(child->exit_code, 0) << child->output;
  EXPECT_THAT(child->output, testing::HasSubstr("2 tests from 2 test suites ran"));
}

TEST(Environment, PreparedEnvironmentReplacesAndRemoves) {
  setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  setenv("GOMP_SPINCOUNT", "infinity", 1);
  setenv("KILN_PEERS_TEST_KEPT", "yes", 1);
  const auto lines = apply(peer_environment());
  EXPECT_THAT(lines, testing::Not(testing::Contains(testing::StartsWith("OPENBLAS_CORETYPE="))));
  EXPECT_THAT(lines, testing::Contains("KILN_PEERS_TEST_KEPT=yes"));
  EXPECT_THAT(lines, testing::Contains(testing::StartsWith("GOMP_SPINCOUNT=")).Times(1));
  EXPECT_THAT(lines, testing::Not(testing::Contains("GOMP_SPINCOUNT=infinity")));
  EXPECT_THAT(lines, testing::Contains("BLIS_ARCH_TYPE=0").Times(cpu_has_avx512() ? 1 : 0));
}

TEST(Peers, LibrariesOfTheUsersAreNamedByTheirFiles) {
  // Whichever the system has, under another name.
  const TempDir dir;
  std::filesystem::path real;
  for (const auto& peer : peers().present)
    if (peer->name() == "openblas" || peer->name() == "blis")
      real = peer->note().substr(peer->note().rfind(' ') + 1);
  if (!real.is_absolute()) GTEST_SKIP() << "no BLAS library is installed";
  std::filesystem::create_symlink(real, dir / "libacme-mt.so.5");
  const std::string given = (dir / "libacme-mt.so.5").string() + "::/nowhere/libnone.so";
  ASSERT_EQ(setenv("KILN_PEERS", given.c_str(), 1), 0);
  PeerSet set;
  load_given_blas(set);
  unsetenv("KILN_PEERS");
  ASSERT_EQ(set.present.size(), 1u);
  EXPECT_EQ(set.present[0]->name(), "acme-mt");
  EXPECT_THAT(set.present[0]->note(), testing::EndsWith((dir / "libacme-mt.so.5").string()));
  EXPECT_TRUE(set.present[0]->supports(Gemm::row_major(3, 4, 5), 1));
  ASSERT_EQ(set.absent.size(), 1u);
  EXPECT_EQ(set.absent[0].name, "none");
  EXPECT_THAT(set.absent[0].reason, testing::HasSubstr("/nowhere/libnone.so"));
}

}  // namespace kiln::peers_test
