// A program that calls cuBLAS, with the hook before a library that notes its calls. What kiln
// serves needs a GPU: scripts/torch_hook.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/paths.h"

namespace kiln::cublas_hook_test {

TEST(CublasHook, PassesEveryCallOnAsItWasMade) {
  const std::string command =
      "KILN_DB=:memory: KILN_DB_PATH= KILN_CUBLAS=" + test::fake_cublas_path() +
      " KILN_CUBLASLT=" + test::fake_cublas_path() + " LD_PRELOAD=" + test::cublas_hook_path() +
      " " + test::cublas_caller_path();
  std::string output;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_EQ(output, "all calls arrived\n");
}

TEST(CublasHook, ALibraryThatIsNotThereIsNamed) {
  const std::string command =
      "KILN_DB=:memory: KILN_CUBLAS=/no/such/library.so "
      "LD_LIBRARY_PATH= LD_PRELOAD=" +
      test::cublas_hook_path() + " " + test::cublas_caller_path();
  std::string output;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
  ::pclose(pipe);
  EXPECT_NE(output.find("KILN_CUBLAS = /no/such/library.so"), std::string::npos) << output;
}

}  // namespace kiln::cublas_hook_test
