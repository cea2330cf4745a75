// Family cublaslt: no points of its own. The one rule keeps it out of every search.
#include "generator/families/cuda/library/config.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::library {
namespace {

constexpr FirstRule<CudaLibrary> kFirst[] = {
    {"a config of cublaslt stands for the library's own kernel and is not generated",
     [](const Problem&, const DeviceCaps&, const CudaLibrary&) { return false; }}};

constexpr TypedFamily<CudaLibrary, NoSizes> kRow{
    .vendor = Vendor::nvidia,
    .first_rules = kFirst,
    .sizes = [](const Problem&, const DeviceCaps&, const CudaLibrary&) { return NoSizes{}; },
    .enumerate = [](const Problem&, const DeviceCaps&,
                    const std::function<void(const Config&)>&) {},
    .parameters = [](const Problem&, const DeviceCaps&, const CudaLibrary&,
                     const NoSizes&) { return Parameters{}; },
    .predict_ns = [](const Problem&, const DeviceCaps&, const CudaLibrary&,
                     const NoSizes&) { return 0.0; }};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::library
