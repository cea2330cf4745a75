#include "system_library.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "hooks/common/env.h"
#include "hooks/common/once.h"
#include "kiln/kiln.hpp"

namespace kiln::hooks {
namespace {

/// What kiln::blas_library() opened, by its path: the same library, not a second one.
void* open_system() {
  const std::string path(blas_library());
  void* const handle = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  std::fprintf(stderr,
               "kiln: no BLAS library to pass calls on to: name one in KILN_BLAS (found: \"%s\")\n",
               path.c_str());
  std::abort();
}

void* open_system_64() {
  const char* named = env("KILN_BLAS64");
  for (const char* file : {named, "libopenblas64.so.0", "libopenblas64_.so.0", "libblas64.so.3"})
    if (file != nullptr && *file != '\0')
      if (void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return handle;
  return nullptr;
}

/// A library's own answer to how many threads it uses.
struct ThreadCount {
  int (*openblas)() = nullptr;
  std::int64_t (*blis)() = nullptr;
  int (*mkl)() = nullptr;
  int (*in_parallel)() = nullptr;  // where the program has no OpenMP, there are no regions
  int fixed = 1;                   // of a library that cannot be asked
};

ThreadCount find_thread_count() {
  ThreadCount count;
  count.openblas = reinterpret_cast<int (*)()>(system_function("openblas_get_num_threads"));
  count.blis = reinterpret_cast<std::int64_t (*)()>(system_function("bli_thread_get_num_threads"));
  count.mkl = reinterpret_cast<int (*)()>(system_function("MKL_Get_Max_Threads"));
  count.in_parallel = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_in_parallel"));
  if (const char* named = env("OMP_NUM_THREADS")) count.fixed = std::atoi(named);
  if (count.fixed < 1) count.fixed = 1;
  return count;
}

}  // namespace

void* system_function(const char* name) {
  static Once<void*> library;
  return dlsym(library.get(open_system), name);
}

void* system_function_64(const char* name) {
  static Once<void*> opened;
  void* const library = opened.get(open_system_64);
  return library == nullptr ? nullptr : dlsym(library, name);
}

int threads_now() {
  static Once<ThreadCount> found;
  const ThreadCount& count = found.get(find_thread_count);
  if (count.in_parallel != nullptr && count.in_parallel() != 0) return 1;
  if (count.openblas != nullptr) return count.openblas();
  if (count.mkl != nullptr) return count.mkl();
  // BLIS: -1 where nobody has set it.
  if (count.blis != nullptr)
    if (const auto threads = count.blis(); threads > 0) return static_cast<int>(threads);
  return count.fixed;
}

void no_such_function(const char* name) {
  std::fprintf(stderr, "kiln: %s: %s has no such function\n", name,
               std::string(blas_library()).c_str());
  std::abort();
}

}  // namespace kiln::hooks
