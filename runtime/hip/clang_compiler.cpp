#include <memory>
#include <mutex>

#include "runtime/hip/code_object.h"
#include "runtime/hip/compilers.h"

namespace kiln::hip {
namespace {

class ClangCompiler : public Compiler {
 public:
  explicit ClangCompiler(Compiler* clang) : clang_(clang) {}

  Result<Binary> compile(const Source& source) override { return compile_unless({}, source); }
  Result<Binary> compile_unless(const std::stop_token& stop, const Source& source) override {
    auto binary = clang_->compile_unless(stop, source);
    if (!binary) return binary;
    const auto object = read_code_object(binary->image);
    if (!object) return tl::unexpected(object.error());
    binary->resources = report_of(*object);
    return binary;
  }
  Result<std::string> assembly(const Source& source) override { return clang_->assembly(source); }
  std::string version() const override { return clang_->version(); }

 private:
  Compiler* clang_;
};

}  // namespace

Result<Compiler*> clang_compiler() {
  const auto clang = host_compiler();
  if (!clang) return clang;
  static auto& compiler = *new ClangCompiler(*clang);
  return &compiler;
}

}  // namespace kiln::hip
