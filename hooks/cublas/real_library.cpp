#include "hooks/cublas/real_library.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <type_traits>

#include "hooks/common/env.h"
#include "hooks/common/once.h"

namespace kiln::hooks {
namespace {

/// One that is loaded already comes first, whatever its number.
void* open_library(const char* variable, std::initializer_list<const char*> names) {
  if (const char* named = env(variable); named != nullptr && *named != '\0') {
    if (void* const handle = dlopen(named, RTLD_NOW | RTLD_LOCAL)) return handle;
    std::fprintf(stderr, "kiln: %s = %s: %s\n", variable, named, dlerror());
  }
  for (const int flags : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL})
    for (const char* name : names)
      if (void* const handle = dlopen(name, flags)) return handle;
  std::fprintf(stderr, "kiln: no %s to pass calls on to: name one in %s\n", *names.begin(),
               variable);
  std::abort();
}

void* function_of(void* library, const char* name) {
  if (void* const found = dlsym(library, name)) return found;
  std::fprintf(stderr, "kiln: %s is not in the cuBLAS that is loaded\n", name);
  std::abort();
}

template <typename Function>
void load(Function& function, const char* name, void* (*from)(const char*)) {
  function = reinterpret_cast<Function>(from(name));
}

/// Of the driver, which a program that calls cuBLAS has loaded.
struct Driver {
  int (*context)(void**) = nullptr;
  int (*device)(int*) = nullptr;
  int (*primary)(void**, int) = nullptr;
};

Driver open_driver() {
  Driver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return driver;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
  };
  find(driver.device, "cuCtxGetDevice");
  find(driver.primary, "cuDevicePrimaryCtxRetain");
  find(driver.context, "cuCtxGetCurrent");
  return driver;
}

constexpr int kMostGpus = 64;

}  // namespace

thread_local bool PassingOn::now_ = false;

void* cublas_function(const char* name) {
  static Once<void*> library;
  const auto open = [] {
    return open_library("KILN_CUBLAS", {"libcublas.so.13", "libcublas.so.12"});
  };
  return function_of(library.get(open), name);
}

void* cublaslt_function(const char* name) {
  static Once<void*> library;
  const auto open = [] {
    return open_library("KILN_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"});
  };
  return function_of(library.get(open), name);
}

const Getters& getters() {
  static Once<Getters> all;
  return all.get([] {
    Getters g{};
    load(g.stream, "cublasGetStream_v2", cublas_function);
    load(g.pointer_mode, "cublasGetPointerMode_v2", cublas_function);
    load(g.math_mode, "cublasGetMathMode", cublas_function);
    load(g.sm_count_target, "cublasGetSmCountTarget", cublas_function);
    return g;
  });
}

const LtGetters& lt_getters() {
  static Once<LtGetters> all;
  return all.get([] {
    LtGetters g{};
    load(g.matmul, "cublasLtMatmulDescGetAttribute", cublaslt_function);
    load(g.layout, "cublasLtMatrixLayoutGetAttribute", cublaslt_function);
    return g;
  });
}

int current_gpu() {
  static Once<Driver> opened;
  const Driver& driver = opened.get(open_driver);
  // Primary contexts live as long as their devices; they are kept here.
  static std::array<std::atomic<void*>, kMostGpus> primary_contexts{};
  void* current = nullptr;
  int device = -1;
  if (driver.context == nullptr || driver.device == nullptr || driver.primary == nullptr ||
      driver.context(&current) != 0 || current == nullptr || driver.device(&device) != 0 ||
      device < 0 || device >= kMostGpus)
    return -1;
  std::atomic<void*>& known = primary_contexts[static_cast<std::size_t>(device)];
  void* primary = known.load(std::memory_order_acquire);
  if (primary == nullptr) {
    if (driver.primary(&primary, device) != 0) return -1;
    known.store(primary, std::memory_order_release);
  }
  return primary == current ? device : -1;
}

}  // namespace kiln::hooks
