// An invented vendor of GPUs: one row for the generator, one for the runtime, and one family.
// Programs that link this file know the vendor; nothing else was written for it. Its devices stand
// behind the fake HIP runtime, and its family is the plain one of AMD's.
#include <algorithm>
#include <cstdlib>

#include "generator/space/platform.h"
#include "runtime/backend.h"
#include "runtime/hip/compilers.h"
#include "runtime/hip/device.h"
#include "runtime/hip/driver.h"

namespace {

using namespace kiln;

constexpr Vendor kAcme{"acme"};

Platform acme_platform() {
  Platform row = platform_of(Vendor::amd);
  row.vendor = kAcme;
  return row;
}

Family acme_family() {
  const auto found = std::ranges::find(families(), "hip_simt", &Family::name);
  if (found == families().end()) std::abort();
  Family row = *found;
  row.vendor = kAcme;
  return row;
}

Result<gpu::SharedDevice> open_acme(int ordinal) {
  const auto like = hip::open_device(ordinal);
  if (!like) return like;
  gpu::Described device{.driver = **hip::driver(), .ordinal = ordinal, .handle = ordinal};
  device.caps = (*like)->caps();
  device.caps.vendor = kAcme;
  device.caps.model = "Acme One";
  device.runtime_version = "Acme runtime 1";
  return gpu::GpuDevice::make(std::move(device));
}

const Family families_of_acme[] = {acme_family()};
const AddedPlatform platform(acme_platform(), families_of_acme);
const AddedBackend backend({.vendor = kAcme,
                            .name = "acme",
                            .policy = "acme-cold-v1",
                            .compiler = hip::clang_compiler,
                            .count = [] { return Result<int>(1); },
                            .open = open_acme});

}  // namespace
