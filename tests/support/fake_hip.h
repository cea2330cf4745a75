// A fixture on the fake HIP runtime, which checks every call and runs kernels on the emulator. To
// include it is to point this process, and those that it starts, at the fakes. Empty in a build
// without a compiler, which has no fakes.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "fakes/hip_control.h"
#include "generator/problem/extent.h"
#include "generator/problem/operand.h"
#include "runtime/gpu/device.h"
#include "support/paths.h"
#include "tuner/verify/verify.h"

#ifdef KILN_HAS_FAKE_HIP

namespace kiln::test {

/// The fake's own functions, found in the object that kiln opens by its soname from now on. The
/// worker finds both fakes through the environment.
struct FakeRuntime {
  FakeRuntime() {
    setenv("KILN_CLANG", fake_clang_path().c_str(), 1);
    setenv("KILN_REAL_CLANG", real_clang_path().c_str(), 1);
    setenv("KILN_KEPT_CODE", kept_code_path().c_str(), 1);
    setenv("LD_LIBRARY_PATH", std::filesystem::path(fake_hip_path()).parent_path().c_str(), 1);
    void* object = dlopen(fake_hip_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) std::abort();
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(object, name));
    };
    load(calls, "fake_hip_calls");
    load(complaints, "fake_hip_complaints");
    load(live, "fake_hip_live");
    load(clear, "fake_hip_clear");
    load(fail_mallocs, "fake_hip_fail_mallocs");
    load(get_device, "hipGetDevice");
    load(set_device, "hipSetDevice");
  }
  decltype(&fake_hip_calls) calls;
  decltype(&fake_hip_complaints) complaints;
  decltype(&fake_hip_live) live;
  decltype(&fake_hip_clear) clear;
  decltype(&fake_hip_fail_mallocs) fail_mallocs;
  int (*get_device)(int*);
  int (*set_device)(int);
};
inline const FakeRuntime fake;

/// Every test ends with nothing left and nothing complained of.
class FakeHipTest : public testing::Test {
 protected:
  FakeHipTest() { fake.clear(); }
  void TearDown() override {
    EXPECT_THAT(fake.complaints(), testing::StrEq(""));
    EXPECT_EQ(fake.live(), 0);
  }
  /// What a planted mistake made the fake say; said and forgotten.
  static std::string complained() {
    const std::string text = fake.complaints();
    fake.clear();
    return text;
  }
};

/// verify() of a call whose operands lie in the device's memory, which is the host's.
template <typename Call>
Verdict verify_there(const gpu::SharedDevice& device, const Gemm& gemm, Call&& call) {
  return verify(gemm, [&](const Operands& host) -> Status {
    std::vector<gpu::DeviceBuffer> buffers;
    const auto copied = [&](const void* from, Operand which) -> std::byte* {
      const auto bytes = std::size_t(span(gemm, which) * size_of(matrix(gemm, which).dtype));
      if (from == nullptr || bytes == 0) return nullptr;
      buffers.push_back(gpu::DeviceBuffer::make(device, bytes).value());
      std::memcpy(buffers.back().data(), from, bytes);
      return buffers.back().data();
    };
    Operands there = host;
    there.a = copied(host.a, Operand::a);
    there.b = copied(host.b, Operand::b);
    there.c = host.beta == 0 ? nullptr : copied(host.c, Operand::c);
    there.d = copied(host.d, Operand::d);
    if (Status ran = call(there); !ran) return ran;
    if (!buffers.empty()) std::memcpy(host.d, there.d, buffers.back().bytes());
    return {};
  });
}

}  // namespace kiln::test

#endif
