// Which known word a mistyped one is taken for.
#include "generator/problem/did_you_mean.h"

#include <gtest/gtest.h>

#include <array>

namespace kiln::did_you_mean_test {

// clock: a word
constexpr std::array<std::string_view, 5> kWords{"tune", "bench", "explain", "--budget", "N"};

TEST(DidYouMean, OneEditInThreeLetters) {
  EXPECT_EQ(nearest_word("tnue", kWords), "tune");     // two changed places
  EXPECT_EQ(nearest_word("tun", kWords), "tune");      // one less
  EXPECT_EQ(nearest_word("bbench", kWords), "bench");  // one more
  EXPECT_EQ(nearest_word("Bench", kWords), "bench");
  EXPECT_EQ(nearest_word("explian", kWords), "explain");
  EXPECT_EQ(nearest_word("--buget", kWords), "--budget");  // clock: a word
  EXPECT_EQ(nearest_word("tame", kWords), "");
  EXPECT_EQ(nearest_word("conquer", kWords), "");
  EXPECT_EQ(nearest_word("", kWords), "");
  EXPECT_EQ(nearest_word("X", kWords), "");
  EXPECT_EQ(nearest_word(std::string(100000, 'b'), kWords), "");
}

TEST(DidYouMean, EndsAMessage) {
  EXPECT_EQ(did_you_mean("benhc", kWords), "; did you mean \"bench\"?");
  EXPECT_EQ(did_you_mean("conquer", kWords), "");
}

}  // namespace kiln::did_you_mean_test
