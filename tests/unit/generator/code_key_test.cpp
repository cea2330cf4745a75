// Which changes of generated text make other code, and which do not.
#include "generator/render/code_key.h"

#include <gtest/gtest.h>

#include <set>

#include "generator/families/cuda/wgmma/config.h"
#include "support/hip.h"

namespace kiln::code_key_test {

TEST(CodeKey, CommentsAndWhiteSpaceAreNoTokens) {
  const std::string plain = "int f(int a) { return a+1; }\n";
  for (const std::string same :
       {"int f(int a){return a + 1;}", "// head\nint f(int a) { return a+1; }",
        "int f(int a) /* why */ { return a+1; } // end", "int\nf(int a)\n{\n\treturn a+1;\n}\n",
        "int f(int a) { return a\\\n+1; }"})
    EXPECT_EQ(code_tokens(same), code_tokens(plain)) << same;
}

TEST(CodeKey, EveryTokenCounts) {
  std::set<std::string> keys;
  const std::string texts[] = {"a + +b;",
                               "a ++b;",
                               "a+b;",
                               "ab;",
                               "a b;",
                               "x = 1.5e-3f;",
                               "x = 1.5e -3f;",
                               "asm(\"add r, r; // not a comment\");",
                               "asm(\"add r,r; // not a comment\");",
                               "asm(\"a\\\"b\");",
                               "asm(\"a\" \"b\");",
                               "c = '\\'';",
                               "c = '\"'; d = '/';",
                               "R\"x(a  b)x\";",
                               "R\"x(a b)x\";",
                               "#define A b\nc;",
                               "#define A b c;",
                               "#define A b\\\n c\nd;",
                               "x >>= 2;",
                               "x > >= 2;",
                               "/* open",
                               "a /* open"};
  for (const std::string& text : texts) EXPECT_TRUE(keys.insert(code_key(text, {})).second) << text;
  EXPECT_TRUE(keys.insert(code_key(texts[0], {"-O3"})).second);
  EXPECT_TRUE(keys.insert(code_key(texts[0], {"-O3", "-g"})).second);
  EXPECT_TRUE(keys.insert(code_key(texts[0], {"-O3-g"})).second);
}

TEST(CodeKey, NamesAndHeadsAreNoPartOfIt) {
  const Source base{"// problem: one\nint x;", "a.cpp", {"-O3"}};
  EXPECT_EQ(code_key(base), code_key(Source{"// problem: two\nint x;", "b.cpp", {"-O3"}}));
  EXPECT_NE(code_key(base), code_key(Source{"int y;", "a.cpp", {"-O3"}}));
}

TEST(CodeKey, ShapesOfOneKernelShareIt) {
  const DeviceCaps device = cuda_caps_named("sm_90a").value();
  const Config config =
      test::ranked<CudaWgmma>(test::problem("bf16 N T 4096 4096 4096"), device)[0];
  const auto of = [&](const std::string& shape) {
    return render(Problem::of(test::problem(shape)).value(), device, config).value();
  };
  const Source one = of("bf16 N T 4096 4096 4096"), other = of("bf16 N T 8192 4096 4096");
  EXPECT_NE(one.text, other.text) << "the head names the problem";
  EXPECT_EQ(code_key(one), code_key(other));
  EXPECT_EQ(without_head(one.text), without_head(other.text));
  EXPECT_EQ(without_head(one.text).substr(0, 8), "\n// ----");
}

}  // namespace kiln::code_key_test
