// kiln.h from C99 (c_api_user.c) and its promises about threads.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "kiln/engine.hpp"
#include "kiln/kiln.h"
#include "support/temp_dir.h"

extern "C" int use_kiln_from_c(const char* database);

namespace kiln {
namespace {

TEST(CApi, ACProgramRuns) {
  TempDir dir;
  EXPECT_EQ(use_kiln_from_c((dir / "kiln.db").c_str()), 0);
}

TEST(CApi, TheLastErrorIsTheThreadsOwn) {
  EXPECT_EQ(kiln_open(nullptr, nullptr), KILN_BAD_INPUT);
  const std::string mine = kiln_last_error();
  EXPECT_NE(mine, "");
  std::thread([] {
    EXPECT_STREQ(kiln_last_error(), "");
    EXPECT_EQ(kiln_gemm(nullptr, nullptr, nullptr), KILN_BAD_INPUT);
  }).join();
  EXPECT_EQ(kiln_last_error(), mine);
}

TEST(CApi, EveryDtypeStartsAsInCpp) {
  for (int t = KILN_FP32; t <= KILN_U8; ++t) {
    kiln_gemm_desc desc;
    kiln_gemm_desc_init(&desc, 2, 3, 4, static_cast<kiln_dtype>(t));
    const Gemm gemm = Gemm::row_major(2, 3, 4, static_cast<DType>(t));
    EXPECT_EQ(desc.b.dtype, static_cast<int>(gemm.b.dtype));
    EXPECT_EQ(desc.d.dtype, static_cast<int>(gemm.d.dtype));
    EXPECT_EQ(desc.accumulator, static_cast<int>(gemm.accumulator));
    EXPECT_EQ(desc.alignment, 1);
  }
}

TEST(CApi, StatusesAreNamed) {
  EXPECT_STREQ(kiln_status_name(KILN_INTERNAL), "internal");
  EXPECT_STREQ(kiln_version(), std::string(version()).c_str());
}

}  // namespace
}  // namespace kiln
