// Where this tree and what was built from it lie: tests/CMakeLists.txt writes the definitions. Not
// macros, for an absolute path in a compiler's command makes its object one of this folder alone
// (ccache).
#pragma once

#include <string>

namespace kiln::test {

std::string source_dir();
std::string build_dir();

// What stands in for libraries that are not here, and who runs on it. Each is defined where its
// test is built.
std::string acme_worker_path();
std::string blas_caller_path();
std::string blas_hook_path();
std::string cublas_caller_path();
std::string cublas_hook_path();
std::string fake_aocl_path();
std::string fake_blas_path();
std::string fake_clang_path();
std::string fake_cublas_path();
std::string fake_hip_path();
std::string fake_nvml_path();
std::string fake_onednn3_broken_path();
std::string fake_onednn3_path();
std::string kept_code_path();
std::string real_clang_path();

}  // namespace kiln::test
