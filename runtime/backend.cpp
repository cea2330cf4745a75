#include "runtime/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "runtime/cuda/device.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "runtime/hip/compilers.h"
#include "runtime/hip/device.h"

namespace kiln {
namespace {

std::vector<Backend>& rows() {
  static auto& all = *new std::vector<Backend>{
      {.vendor = Vendor::cpu, .name = "cpu", .policy = "cold-v1", .compiler = host_compiler},
      {.vendor = Vendor::nvidia,
       .name = "cuda",
       .policy = "cuda-cold-v1",
       .sustained = "cuda-sustained-v1",
       .compiler = nvrtc_compiler,
       .count = cuda::device_count,
       .open = cuda::open_device,
       .library = cuda::CublasLt::make},
      {.vendor = Vendor::amd,
       .name = "hip",
       .policy = "hip-cold-v1",
       .sustained = "hip-sustained-v1",
       .compiler = hip::clang_compiler,
       .count = hip::device_count,
       .open = hip::open_device},
  };
  return all;
}

/// N of "cuda:N"; -1 where it is not such number.
int ordinal_in(std::string_view number) {
  int ordinal = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
  return error == std::errc{} && end == number.data() + number.size() ? ordinal : -1;
}

/// The row of GPUs that a device's name begins with, or null.
const Backend* gpu_backend_in(std::string_view device) {
  for (const Backend& row : rows())
    if (!row.host() && device.starts_with(fmt::format("{}:", row.name))) return &row;
  return nullptr;
}

}  // namespace

std::span<const Backend> backends() { return rows(); }

const Backend& backend_of(Vendor vendor) {
  for (const Backend& row : rows())
    if (row.vendor == vendor) return row;
  std::abort();  // a vendor without a row
}

bool on_host(const DeviceCaps& device) {
  return std::any_of(rows().begin(), rows().end(),
                     [&](const Backend& row) { return row.vendor == device.vendor && row.host(); });
}

AddedBackend::AddedBackend(const Backend& row) { rows().push_back(row); }
AddedBackend::~AddedBackend() { rows().pop_back(); }

bool names_gpu(std::string_view device) { return gpu_backend_in(device) != nullptr; }

Result<gpu::SharedDevice> open_gpu(std::string_view name) {
  const Backend* backend = gpu_backend_in(name);
  if (backend == nullptr)
    return fail(ErrorCode::bad_input, fmt::format("device = {}: must be {}", name, gpu_names()));
  const int ordinal = ordinal_in(name.substr(backend->name.size() + 1));
  if (ordinal >= 0) return backend->open(ordinal);
  return fail(ErrorCode::bad_input,
              fmt::format("device = {}: must be {}:N, N being 0 or more", name, backend->name));
}

Result<gpu::SharedDevice> open_gpu(Vendor vendor, int ordinal) {
  const Backend& backend = backend_of(vendor);
  if (backend.host()) return fail(ErrorCode::internal, "the device is a CPU, not a GPU");
  return backend.open(ordinal);
}

std::vector<std::string> gpus_here() {
  std::vector<std::string> names;
  for (const Backend& backend : rows()) {
    const int count = backend.host() ? 0 : backend.count().value_or(0);
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}:{}", backend.name, i));
  }
  return names;
}

std::string gpu_names() {
  std::string names;
  for (const Backend& backend : rows())
    if (!backend.host()) names += fmt::format("{}{}:N", names.empty() ? "" : " or ", backend.name);
  return names;
}

Result<Compiler*> compiler_for(const DeviceCaps& device) {
  for (const Backend& row : rows())
    if (row.vendor == device.vendor) return row.compiler();
  return fail(ErrorCode::compiler, fmt::format("no compiler for {} in this build", device.arch));
}

}  // namespace kiln
