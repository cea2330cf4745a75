// The words of a shape's line as people type them, and mistype them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/range.hpp"

namespace kiln::gemm_words_test {

using testing::HasSubstr;
using testing::Not;

TEST(GemmWords, ReadsOtherNamesOfTypesAndWritesItsOwn) {
  const auto written = [](std::string_view line) {
    const auto g = parse_gemm(line);
    EXPECT_TRUE(g) << g.error().message;
    return g ? text(*g) : std::string();
  };
  for (const char* word : {"f32", "float", "float32", "single", "FP32", "Float"})
    EXPECT_EQ(written(word + std::string(" n t 1 2 3")), "fp32 N T 1 2 3");
  for (const char* word : {"half", "f16", "float16"})
    EXPECT_EQ(written(word + std::string(" N N 1 2 3 out=float")), "fp16 N N 1 2 3 out=fp32");
  EXPECT_EQ(written("double N N 1 2 3"), "fp64 N N 1 2 3");
  EXPECT_EQ(written("bfloat16 N N 1 2 3 acc=f32 out=half"), "bf16 N N 1 2 3 out=fp16");
  for (const char* word : {"s8", "i8", "INT8"})
    EXPECT_EQ(written(word + std::string(" N N 1 2 3 out=int8")), "int8 N N 1 2 3 out=s8");
  EXPECT_EQ(written("uint8 N N 1 2 3 out=int32"), "u8s8 N N 1 2 3");
  EXPECT_EQ(parse_gemm_range("half n t 1..8 2 3").map([](const GemmRange& r) { return text(r); }),
            "fp16 N T 1..8 2 3");
}

TEST(GemmWords, MistypedWordsAreGuessed) {
  const auto message = [](std::string_view line) { return parse_gemm(line).error().message; };
  EXPECT_THAT(message("fp23 N N 1 2 3"), HasSubstr("; did you mean \"fp32\"?"));
  EXPECT_THAT(message("bf61 N N 1 2 3"), HasSubstr("dtype = \"bf61\": must be one of fp32"));
  EXPECT_THAT(message("bf61 N N 1 2 3"), HasSubstr("did you mean \"bf16\"?"));
  EXPECT_THAT(message("fp32 N N 1 2 3 epilouge=relu"), HasSubstr("did you mean \"epilogue\"?"));
  EXPECT_THAT(message("fp32 N N 1 2 3 epilogue=RElu"), HasSubstr("did you mean \"relu\"?"));
  EXPECT_THAT(message("fp32 N N 1 2 3 epilogue=bias_column"), HasSubstr("\"bias_col\"?"));
  EXPECT_THAT(message("fp32 N N 1 2 3 out=bf61"), HasSubstr("did you mean \"bf16\"?"));
  EXPECT_THAT(message("fp8 N N 1 2 3 scale=mx23"), HasSubstr("did you mean \"mx32\"?"));
  EXPECT_THAT(message("quaternion N N 1 2 3"), Not(HasSubstr("did you mean")));
}

}  // namespace kiln::gemm_words_test
