// The in-process compiler as tests use it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "runtime/compiler.h"
#include "runtime/cpu/kernel.h"
#include "support/kernel_source.h"

namespace kiln::test {

/// The compiler of this build; without one no test can go on.
inline Compiler& compiler() {
  const auto opened = host_compiler();
  if (!opened) {
    ADD_FAILURE() << opened.error().message;
    std::abort();
  }
  return **opened;
}

/// What a compile that must fail says.
inline std::string failure(const Source& source) {
  const auto binary = compiler().compile(source);
  if (binary.has_value()) return "compiled";
  EXPECT_EQ(binary.error().code, ErrorCode::compiler);
  return binary.error().message;
}

/// What every failure must leave behind: a compiler that works, and a kernel that says which it is.
inline void expect_still_works(long long mark) {
  const auto binary = compiler().compile(kernel_source("", mark));
  ASSERT_TRUE(binary) << binary.error().message;
  EXPECT_EQ(HostKernel::load(binary->image)->workspace_bytes(nullptr, 1), mark);
}

/// `source` with more flags, after its own.
inline Source with_flags(Source source, const std::vector<std::string>& flags) {
  source.flags.insert(source.flags.end(), flags.begin(), flags.end());
  return source;
}

}  // namespace kiln::test
