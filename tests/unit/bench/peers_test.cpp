// Every installed peer against a plain triple loop, on the layouts it claims to support.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "bench/environment.h"
#include "bench/peer.h"
#include "bench/self.h"
#include "support/peer_check.h"

namespace kiln::peers_test {

using test::check;
using test::layouts;

const PeerSet& peers() {
  static const PeerSet set = load_peers();
  return set;
}

Gemm behind_product(const char* epilogue) {
  return Gemm::row_major(8, 8, 8).with_expression(Expression::parse(epilogue).value());
}

TEST(Peers, EachIsPresentOrAbsentWithAReason) {
  std::map<std::string, int> seen;
  for (const auto& peer : peers().present) {
    ++seen[peer->name()];
    EXPECT_FALSE(peer->note().empty()) << peer->name();
    EXPECT_THAT(peer->version(), testing::MatchesRegex("[A-Za-z-]+ [0-9]+\\.[0-9.]*[0-9]"));
  }
  for (const auto& absent : peers().absent) {
    ++seen[absent.name];
    EXPECT_FALSE(absent.reason.empty()) << absent.name;
  }
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name;
  for (const char* name : {"openblas", "blis", "aocl", "libxsmm", "eigen"})
    EXPECT_TRUE(seen.contains(name)) << name;
  for (const std::string name : {"onednn", "onednn3"})
    EXPECT_TRUE(seen.contains(name) || seen.contains(name + "_matmul")) << name;
}

TEST(Peers, AreRightInEveryLayout) {
  std::map<std::string, int> ran;
  for (const auto& peer : peers().present) {
    for (DType t : {fp32, fp64, bf16, s8, u8})
      for (const Gemm& gemm : layouts(13, 9, 17, t)) ran[peer->name()] += check(*peer, gemm, 1);
    if (peer->name().ends_with("_packed")) {
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
      if (peer->name().ends_with("_packed")) {
        EXPECT_TRUE(ran) << name(t);
      }
    }
}

TEST(Peers, RefuseWhatTheyDoNotDo) {
  for (const auto& peer : peers().present) {
    EXPECT_FALSE(peer->supports(behind_product("x=acc+1;d=x;z[m,n]=x*x"), 1)) << peer->name();
    if (!peer->name().starts_with("onednn")) {
      EXPECT_FALSE(peer->supports(behind_product("d=relu(acc)"), 1)) << peer->name();
    }
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

}  // namespace kiln::peers_test
