// The lists of all families and of all platforms.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "generator/space/family.h"
#include "generator/space/platform.h"

namespace kiln {
namespace host {
Platform platform();
Family packed_family();
Family dot_family();
Family small_family();
Family amx_family();
}  // namespace host
namespace cuda {
Platform platform();
Family wgmma_family();
Family mma_family();
Family simt_family();
Family gemv_family();
Family library_family();
}  // namespace cuda
namespace hip {
Platform platform();
Family mfma_family();
Family mx_family();
Family simt_family();
}  // namespace hip

namespace {

std::vector<Family>& family_rows() {
  static std::vector<Family> rows{
      host::packed_family(),  host::dot_family(), host::small_family(), host::amx_family(),
      cuda::wgmma_family(),   cuda::mma_family(), cuda::simt_family(),  cuda::gemv_family(),
      cuda::library_family(), hip::mfma_family(), hip::mx_family(),     hip::simt_family()};
  return rows;
}

std::vector<Platform>& platform_rows() {
  static std::vector<Platform> rows{host::platform(), cuda::platform(), hip::platform()};
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
