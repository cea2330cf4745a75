// Family blas_library: no points of its own. The one rule keeps it out of every search.
#include "generator/families/cpu/library/config.h"
#include "generator/space/typed_family.h"

namespace kiln::host::library {
namespace {

constexpr FirstRule<BlasLibrary> kFirst[] = {
    {"a config of blas_library stands for the library's own kernel and is not generated",
     [](const Problem&, const DeviceCaps&, const BlasLibrary&) { return false; }}};

constexpr TypedFamily<BlasLibrary, NoSizes> kRow{
    .vendor = Vendor::cpu,
    .first_rules = kFirst,
    .sizes = [](const Problem&, const DeviceCaps&, const BlasLibrary&) { return NoSizes{}; },
    .enumerate = [](const Problem&, const DeviceCaps&,
                    const std::function<void(const Config&)>&) {},
    .parameters = [](const Problem&, const DeviceCaps&, const BlasLibrary&,
                     const NoSizes&) { return Parameters{}; },
    .predict_ns = [](const Problem&, const DeviceCaps&, const BlasLibrary&,
                     const NoSizes&) { return 0.0; }};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::host::library
