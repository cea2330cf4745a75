// Family cublaslt: no points of its own. The one rule keeps it out of every search.
#include "generator/space/family.h"

#include <array>

#include "generator/families/cuda/library/config.h"

namespace kiln {
namespace {

const std::array kRules{
    Rule{"a config of cublaslt stands for the library's own kernel and is not generated",
         [](const Canonical&, const DeviceCaps&, const Config&) { return false; }}};

void enumerate(const Canonical&, const DeviceCaps&, const std::function<void(const Config&)>&) {}
Parameters parameters(const Canonical&, const DeviceCaps&, const Config&) { return {}; }
double predict(const Canonical&, const DeviceCaps&, const Config&) { return 0; }

}  // namespace

namespace cuda {
Family library_family() {
  return {CudaLibrary::kFamily, {}, enumerate, kRules, parameters, predict, Vendor::nvidia};
}
}  // namespace cuda
}  // namespace kiln
