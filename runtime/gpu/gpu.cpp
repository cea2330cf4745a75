#include "runtime/gpu/gpu.h"

#include <fmt/format.h>

#include <charconv>

#include "runtime/hip/device.h"

namespace kiln {
namespace {

struct Maker {
  std::string_view prefix;
  Vendor vendor;
  Result<int> (*count)();
  Result<cuda::SharedDevice> (*open)(int ordinal);
};

constexpr Maker kMakers[] = {
    {"cuda:", Vendor::nvidia, cuda::device_count, cuda::CudaDevice::open},
    {"hip:", Vendor::amd, hip::device_count, hip::open_device},
};

/// N of "cuda:N"; -1 where it is no such number.
int ordinal_in(std::string_view number) {
  int ordinal = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
  return error == std::errc{} && end == number.data() + number.size() ? ordinal : -1;
}

}  // namespace

bool names_gpu(std::string_view device) {
  for (const Maker& maker : kMakers)
    if (device.starts_with(maker.prefix)) return true;
  return false;
}

Result<cuda::SharedDevice> open_gpu(std::string_view name) {
  for (const Maker& maker : kMakers) {
    if (!name.starts_with(maker.prefix)) continue;
    const int ordinal = ordinal_in(name.substr(maker.prefix.size()));
    if (ordinal >= 0) return maker.open(ordinal);
    return fail(ErrorCode::bad_input,
                fmt::format("device = {}: must be {}N, N being 0 or more", name, maker.prefix));
  }
  return fail(ErrorCode::bad_input, fmt::format("device = {}: must be cuda:N or hip:N", name));
}

Result<cuda::SharedDevice> open_gpu(Vendor vendor, int ordinal) {
  for (const Maker& maker : kMakers)
    if (maker.vendor == vendor) return maker.open(ordinal);
  return fail(ErrorCode::internal, "the device is a CPU, not a GPU");
}

std::vector<std::string> gpus_here() {
  std::vector<std::string> names;
  for (const Maker& maker : kMakers)
    for (int i = 0; i < maker.count().value_or(0); ++i)
      names.push_back(fmt::format("{}{}", maker.prefix, i));
  return names;
}

}  // namespace kiln
