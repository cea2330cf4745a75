#include "fleet/device_kind.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cctype>

#include "runtime/backend.h"

namespace kiln {
namespace {

/// Letters and digits in lower case, one dash for what is between them.
std::string for_a_file(std::string_view model) {
  std::string name;
  for (const char c : model) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (name.ends_with('-')) name.pop_back();
  constexpr std::size_t kLongest = 48;
  return name.empty() ? "device" : name.substr(0, kLongest);
}

}  // namespace

DeviceCaps of_any_threads(DeviceCaps device) {
  if (on_host(device)) device.compute_units = 0;
  return device;
}

std::string kind_name(const DeviceCaps& device) {
  const std::string all = fingerprint(of_any_threads(device));
  const auto hash = static_cast<std::uint32_t>(XXH3_64bits(all.data(), all.size()));
  return fmt::format("{}-{:08x}", for_a_file(device.model), hash);
}

}  // namespace kiln
