// Small host kernels written by hand, for tests of what compiles and loads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generator/render/embedded.h"
#include "generator/render/render.h"

namespace kiln::test {

/// templates/cpu/common/abi.h as a rendered source holds it.
inline std::string abi_text() {
  for (const auto& file : embedded_templates()) {
    if (file.path != "cpu/common/abi.h") continue;
    std::string text(file.text);
    const std::string_view once = "#pragma once\n";
    text.erase(text.find(once), once.size());
    return text;
  }
  return {};
}

/// `body` alone, with the flags of a rendered source for the baseline of its `arch`.
inline Source plain_source(std::string body, std::string_view arch = "x86-64") {
  Source source;
  source.text = std::move(body);
  source.file_name = "by_hand.cpp";
  source.flags = {
      "-std=c++20",      "-O3",      "-march=" + std::string(arch), "-ffp-contract=fast",
      "-fno-exceptions", "-fno-rtti"};
  return source;
}

/// A kernel whose kiln_gemm runs `statements` (with `args`, `thread`, `threads` in sight) and whose
/// kiln_workspace_bytes returns `workspace`. `before` stands at file scope.
inline Source kernel_source(const std::string& statements, long long workspace = 0,
                            const std::string& before = "") {
  return plain_source(abi_text() + "extern \"C\" {\n" + before +
                      "\nvoid kiln_gemm(const KilnArgs* args, int thread, int threads) {\n" +
                      "  (void)args, (void)thread, (void)threads;\n" + statements + "\n}\n" +
                      "long long kiln_workspace_bytes(const KilnArgs*, int) { return " +
                      std::to_string(workspace) + "; }\n}\n");
}

}  // namespace kiln::test
