// Libraries that $KILN_PEERS names: oneDNN 3 and AOCL-BLAS behind fakes, an installed BLAS library
// under another name, and what is said of files that cannot be raced.
#include "bench/onednn.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "bench/peer.h"
#include "bench/track.h"
#include "support/kiln_command.h"
#include "support/paths.h"
#include "support/peer_check.h"
#include "support/temp_dir.h"

namespace kiln::onednn_test {

using test::check;
using test::KilnCommand;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

/// A variable of this process until the end of a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

PeerSet given(const std::string& files) {
  const Variable variable("KILN_PEERS", files);
  PeerSet set;
  load_given_peers(set);
  return set;
}

/// Why the one file that was given is not raced.
std::string refusal(const std::string& file) {
  const PeerSet set = given(file);
  EXPECT_TRUE(set.present.empty());
  if (set.absent.size() != 1) return "";
  EXPECT_TRUE(set.absent[0].given);
  EXPECT_THAT(set.absent[0].reason, HasSubstr("KILN_PEERS = \"" + file + "\": "));
  return set.absent[0].reason;
}

class FakeOnednn : public testing::Test {
 protected:
  FakeOnednn()
      : library_(Library::open({test::fake_onednn3_path()})),
        set_(given(test::fake_onednn3_path())) {}
  int live() const { return library_.symbol<int (*)()>("fake_onednn_live")(); }
  int threads() const { return library_.symbol<int (*)()>("fake_onednn_threads")(); }
  std::string complaint() const {
    return library_.symbol<const char* (*)()>("fake_onednn_complaint")();
  }
  Library library_;
  PeerSet set_;
};

TEST_F(FakeOnednn, ItsPeersAreNamedByItsVersion) {
  ASSERT_EQ(set_.present.size(), 3u);
  EXPECT_EQ(set_.present[0]->name(), "onednn3_gemm");
  EXPECT_EQ(set_.present[1]->name(), "onednn3_matmul");
  EXPECT_EQ(set_.present[2]->name(), "onednn3_packed");
  for (const auto& peer : set_.present) {
    EXPECT_EQ(peer->version(), "oneDNN 3.99.1");
    EXPECT_THAT(peer->note(),
                AllOf(HasSubstr("isa 0xe7, OpenMP"), EndsWith(test::fake_onednn3_path())));
  }
}

TEST_F(FakeOnednn, EveryLayoutTypeAndBatchArrives) {
  int ran = 0;
  const auto run = [&](const Gemm& gemm) {
    for (const auto& peer : set_.present)
      for (const int threads_asked : {1, 2})
        if (check(*peer, gemm, threads_asked)) {
          ++ran;
          EXPECT_EQ(threads(), threads_asked) << peer->name();
        }
  };
  for (const DType type : {fp32, fp64, bf16, s8, u8}) {
    for (const Gemm& gemm : test::layouts(5, 7, 6, type)) run(gemm);
    run(Gemm::row_major(4, 3, 5, type).batched(3));
    run(Gemm::row_major(4, 9, 5, type).transpose_b().with_packed_b());
    run(Gemm::row_major(4, 9, 5, type).batched(2).with_packed_b());
  }
  // Two thread counts, 19 problems; gemm takes fp32, s8 and u8, matmul bf16 too, packed two. A
  // column-major product of u8 is a row-major one with a B of u8, which neither takes.
  EXPECT_EQ(ran, 2 * ((3 * 19 - 8) + (4 * 19 - 8) + 4 * 2));
  EXPECT_EQ(complaint(), "");
  EXPECT_EQ(live(), 0) << "objects that were not destroyed";
}

TEST_F(FakeOnednn, PackedWeightsAreOfItsOwnLayoutAndSize) {
  const Gemm gemm = Gemm::row_major(4, 9, 5).transpose_b().with_packed_b();
  auto kernel = set_.present[2]->prepare(gemm, 1);
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ((*kernel)->packed_b_bytes(), (8u * 8 + 5) * 4);  // the last of 9 columns has no room
  EXPECT_FALSE(set_.present[2]->supports(Gemm::row_major(4, 9, 5), 1)) << "B is not packed";
}

TEST_F(FakeOnednn, ReferenceLoopsAreNotRaced) {
  const auto kernel = set_.present[1]->prepare(Gemm::row_major(4, 9, 5, fp16), 1);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::unsupported);
  EXPECT_EQ(complaint(), "");
  EXPECT_EQ(live(), 0);
}

TEST_F(FakeOnednn, TwoVersionsRaceSideBySide) {
  PeerSet set;
  load_onednn(set);
  const std::size_t installed = set.present.size();
  const Variable variable("KILN_PEERS", test::fake_onednn3_path());
  load_given_peers(set);
  ASSERT_EQ(set.present.size(), installed + 3);
  // In turn on one OpenMP or two: each sets its own threads at every call.
  for (const int threads_asked : {1, 2, 1})
    for (const auto& peer : set.present)
      EXPECT_TRUE(peer->name().find("_packed") != std::string::npos ||
                  check(*peer, Gemm::row_major(12, 11, 10), threads_asked))
          << peer->name();
}

TEST(GivenPeers, ASymbolThatIsMissingIsNamed) {
  EXPECT_THAT(refusal(test::fake_onednn3_broken_path()),
              EndsWith("it lacks dnnl_matmul_primitive_desc_create"));
}

TEST(GivenPeers, VersionsAndRuntimesThatAreNotKnownAreNamed) {
  // A file of its own, for a library that was bound is not asked again.
  const TempDir dir;
  const std::string file = (dir / "libdnnl.so.4").string();
  std::filesystem::copy_file(test::fake_onednn3_path(), file);
  {
    const Variable version("FAKE_ONEDNN_VERSION", "4.0.0");
    EXPECT_THAT(refusal(file), HasSubstr("oneDNN 4: kiln knows 2 and 3"));
  }
  {
    const Variable runtime("FAKE_ONEDNN_RUNTIME", "4");
    EXPECT_THAT(refusal(file), HasSubstr("it runs on TBB"));
  }
  const Variable runtime("FAKE_ONEDNN_RUNTIME", "1");
  const PeerSet sequential = given(file);
  ASSERT_EQ(sequential.present.size(), 3u);
  EXPECT_TRUE(sequential.present[0]->supports(Gemm::row_major(3, 4, 5), 1));
  EXPECT_FALSE(sequential.present[0]->supports(Gemm::row_major(3, 4, 5), 2));
}

TEST(GivenPeers, AoclIsInitialisedWithoutTheVariableOfBlis) {
  // The value that makes BLIS 0.9 choose AVX-512 would end this process.
  const Variable variable("BLIS_ARCH_TYPE", "0");
  const PeerSet set = given(test::fake_aocl_path());
  ASSERT_EQ(set.present.size(), 1u);
  EXPECT_EQ(set.present[0]->name(), "blis-mt");
  EXPECT_EQ(set.present[0]->version(), "AOCL-BLAS 5.9.1");
  EXPECT_THAT(set.present[0]->note(),
              HasSubstr("AOCL-BLAS 5.9.1 Build 20260101, kernels for zen5"));
  EXPECT_STREQ(std::getenv("BLIS_ARCH_TYPE"), "0") << "it is there again for others";
  EXPECT_TRUE(check(*set.present[0], Gemm::row_major(3, 4, 5).transpose_b(), 1));
}

TEST(GivenPeers, IntegersOf64BitsAreRefused) {
  const Variable bits("FAKE_AOCL_INTEGER_BITS", "64");
  EXPECT_THAT(refusal(test::fake_aocl_path()), HasSubstr("integers of 64 bits"));
}

TEST(GivenPeers, AreNamedByTheirFiles) {
  // Whichever the system has, under another name.
  PeerSet installed;
  load_openblas(installed);
  load_blis(installed);
  if (installed.present.empty()) GTEST_SKIP() << "no BLAS library is installed";
  const std::string note = installed.present[0]->note();
  const TempDir dir;
  std::filesystem::create_symlink(note.substr(note.rfind(' ') + 1), dir / "libacme-mt.so.5");
  const std::string file = (dir / "libacme-mt.so.5").string();
  const PeerSet set = given(file + "::" + file);
  ASSERT_EQ(set.present.size(), 2u);
  EXPECT_EQ(set.present[0]->name(), "acme-mt");
  EXPECT_EQ(set.present[1]->name(), "acme-mt+");
  EXPECT_THAT(set.present[0]->note(), EndsWith(file));
  EXPECT_TRUE(set.present[0]->supports(Gemm::row_major(3, 4, 5), 1));
}

TEST(GivenPeers, AFileThatCannotBeRacedEndsTheRace) {
  EXPECT_THAT(refusal("/nowhere/libnone.so"), HasSubstr("cannot open shared object file"));
  EXPECT_THAT(refusal("libm.so.6"), HasSubstr("lacks cblas_sgemm"));
  const Variable variable("KILN_PEERS", "/nowhere/libnone.so");
  const Status found = host_track({})->find_peers({}, nullptr);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::bad_input);
  EXPECT_THAT(found.error().message, HasSubstr("KILN_PEERS = \"/nowhere/libnone.so\""));
}

TEST(GivenPeers, TheReasonOfTheRightVersionIsTold) {
  PeerSet set;
  load_onednn(set);
  for (const AbsentPeer& absent : set.absent) {
    const Status found = host_track({})->find_peers({absent.name + "_matmul"}, nullptr);
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message, HasSubstr(absent.reason));
  }
}

TEST(GivenPeers, VersionsStandInEveryReport) {
  KilnCommand kiln;
  kiln.environment["KILN_PEERS"] = test::fake_onednn3_path();
  const std::string csv = (kiln.folder / "r.csv").string(), svg = (kiln.folder / "r.svg").string();
  const auto race = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bench",
                                      "--shape",
                                      "fp32 N T 8 8 8 packed_b=1",
                                      "--peers",
                                      "onednn3_packed,onednn3_matmul,onednn3_gemm",
                                      "--threads",
                                      "1",
                                      "--samples",
                                      "7"};
    words.insert(words.end(), more.begin(), more.end());
    return kiln(words);
  };
  const auto shown = race({"--csv", csv, "--svg", svg});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("oneDNN 3.99.1: onednn3_gemm, onednn3_matmul, onednn3_packed"));
  EXPECT_THAT(KilnCommand::read(csv), HasSubstr(",\"oneDNN 3.99.1\"\n"));
  EXPECT_THAT(KilnCommand::read(svg), HasSubstr("oneDNN 3.99.1: onednn3_gemm"));
  const auto rows = race({"--json"}).json();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["versions"]["onednn3_packed"], "oneDNN 3.99.1");
  EXPECT_EQ(rows[0]["versions"].size(), rows[0]["peers"].size());

  kiln.environment["KILN_PEERS"] = "/nowhere/libdnnl.so.3";
  const auto refused = race({});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("KILN_PEERS = \"/nowhere/libdnnl.so.3\""));
}

}  // namespace kiln::onednn_test
