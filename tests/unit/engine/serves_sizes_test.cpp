// A CPU's stored kernel computes sizes that nobody tuned: without a compiler, in this process.
#include <gtest/gtest.h>

#include <array>

#include "cache/records/maintenance.h"
#include "cache/records/proofs.h"
#include "engine/engine_impl.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/render/render.h"
#include "support/few.h"
#include "support/opened_engine.h"

namespace kiln::serves_sizes_test {

using test::check;
using test::Opened;
using test::why;

std::int64_t binaries(Opened& kiln) {
  return kiln->impl().store->maintenance().stats()->at(0).binaries;
}

TEST(ServesSizes, AnUntunedSizeRunsTheCodeOfATunedOne) {
  Opened kiln;
  const auto tuned = kiln->tune(Gemm::row_major(100, 200, 300), test::few(8));
  ASSERT_TRUE(tuned) << tuned.error().message;
  for (const std::string& warning : tuned->warnings) ADD_FAILURE() << warning;
  kiln.open();
  const std::int64_t before = binaries(kiln);
  for (const auto& [m, n, k] : {std::array{101, 200, 300},
                                {100, 201, 300},
                                {100, 200, 301},
                                {1, 2, 5},  // one column would be another layout of B
                                {7, 513, 1000},
                                {515, 70, 64}}) {
    const Gemm gemm = Gemm::row_major(m, n, k);
    // An unpacked B is not for every n where vectors have no masks.
    if (!broken_rule(Problem::of(gemm).value(), kiln->impl().key_of(gemm, 1).device,
                     parse_config(tuned->config).value())
             .empty())
      continue;
    const std::string problem = text(gemm);
    const auto plan = kiln->plan(gemm);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->match(), Match::nearest) << problem;
    EXPECT_EQ(plan->config(), tuned->config) << problem;
    EXPECT_NE(plan->impl().reason.find("that have sizes as arguments"), std::string::npos)
        << plan->impl().reason;
    const Verdict verdict = check(*kiln.engine, gemm);
    EXPECT_TRUE(verdict) << problem << ": " << why(verdict);
    EXPECT_EQ(binaries(kiln), before) << problem << " was compiled";
  }
}

TEST(ServesSizes, ACodeThatIsWrongForOtherSizesServesNone) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(96, 128, 64);
  auto& impl = kiln->impl();
  const BestKey key = impl.key_of(gemm, 1);
  const Config config = HostPacked{.mr = 6, .nv = 4, .kc = 64, .mc = 96, .nc = 128};
  ASSERT_EQ(broken_rule(Problem::of(gemm).value(), key.device, config), "");
  auto source = render(Problem::of(gemm).value(), key.device, config);
  ASSERT_TRUE(source);
  const std::string last_row = "rows == kMr && columns == kNr";
  const auto at = source->text.find(last_row);
  ASSERT_NE(at, std::string::npos);
  source->text.replace(at, last_row.size(), "columns == kNr");  // computes rows that D has not
  auto binary = impl.admission.compiler().value()->compile(*source);
  ASSERT_TRUE(binary) << binary.error().message;
  const Record record{.key = key,
                      .validators = impl.now,
                      .measured = {.config = config, .verified = true, .binary_key = "planted"}};
  const Status proof = impl.admission.prove_envelope(record, binary->image);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code, ErrorCode::verification) << proof.error().message;
  EXPECT_FALSE(impl.store->proofs().envelope_proven(record));
}

}  // namespace kiln::serves_sizes_test
