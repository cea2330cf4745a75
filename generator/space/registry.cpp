// The lists of all families and of all platforms.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "generator/space/family.h"
#include "generator/space/platform.h"

namespace kiln {
// Each is at the end of its folder's family.cpp or platform.cpp.
namespace host {
Platform platform();
namespace packed {
Family family();
}
namespace dot {
Family family();
}
namespace small {
Family family();
}
namespace amx {
Family family();
}
namespace weights {
Family family();
}
namespace amx_weights {
Family family();
}
namespace library {
Family family();
}
}  // namespace host
namespace cuda {
Platform platform();
namespace wgmma {
Family family();
}
namespace mma {
Family family();
}
namespace simt {
Family family();
}
namespace gemv {
Family family();
}
namespace gemv_n {
Family family();
}
namespace small {
Family family();
}
namespace weights {
Family family();
}
namespace wgmma_weights {
Family family();
}
namespace gemv_weights {
Family family();
}
namespace library {
Family family();
}
}  // namespace cuda
namespace hip {
Platform platform();
namespace mfma {
Family family();
}
namespace mx {
Family family();
}
namespace simt {
Family family();
}
}  // namespace hip

namespace {

/// Never destroyed, as no table is: exit() may find other threads at work.
/// A vendor's most capable family first: the order of class batch_invariant is that of the first
/// one that offers a plain config (summation.h).
std::vector<Family>& family_rows() {
  static auto& rows = *new std::vector<Family>{host::amx::family(),
                                               host::weights::family(),
                                               host::packed::family(),
                                               host::dot::family(),
                                               host::small::family(),
                                               host::amx_weights::family(),
                                               host::library::family(),
                                               cuda::wgmma::family(),
                                               cuda::mma::family(),
                                               cuda::simt::family(),
                                               cuda::gemv::family(),
                                               cuda::gemv_n::family(),
                                               cuda::weights::family(),
                                               cuda::wgmma_weights::family(),
                                               cuda::gemv_weights::family(),
                                               cuda::library::family(),
                                               cuda::small::family(),
                                               hip::mfma::family(),
                                               hip::mx::family(),
                                               hip::simt::family()};
  return rows;
}

std::vector<Platform>& platform_rows() {
  static auto& rows =
      *new std::vector<Platform>{host::platform(), cuda::platform(), hip::platform()};
  return rows;
}

}  // namespace

std::span<const Family> families() { return family_rows(); }

const Family* find_family(const Config& config, Vendor vendor) {
  const auto wanted = family_name(config);
  for (const Family& family : families())
    if (family.vendor == vendor && family.name == wanted) return &family;
  return nullptr;
}

KilnDivision division_of(const Config& config) {
  const Family* family = find_family(config, Vendor::cpu);
  return family == nullptr || family->division == nullptr ? KilnDivision{}
                                                          : family->division(config);
}

const Family& family_of(const Config& config, Vendor vendor) {
  const Family* family = find_family(config, vendor);
  if (family == nullptr) std::abort();  // broken_rule() was not asked
  return *family;
}

const Platform& platform_of(Vendor vendor) {
  for (const Platform& row : platform_rows())
    if (row.vendor == vendor) return row;
  std::abort();  // vendors come from rows, by vendor_named()
}

std::optional<Vendor> vendor_named(std::string_view name) {
  for (const Platform& row : platform_rows())
    if (row.vendor.name == name) return row.vendor;
  return std::nullopt;
}

AddedPlatform::AddedPlatform(const Platform& platform, std::span<const Family> families)
    : families_(families.size()) {
  platform_rows().push_back(platform);
  family_rows().insert(family_rows().end(), families.begin(), families.end());
}

AddedPlatform::~AddedPlatform() {
  platform_rows().pop_back();
  family_rows().resize(family_rows().size() - families_);
}

}  // namespace kiln
