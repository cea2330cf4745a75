#include "system_library.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "hooks/common/env.h"
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
  int fixed = 1;  // of a library that cannot be asked
};

ThreadCount find_thread_count() {
  ThreadCount count;
  count.openblas = reinterpret_cast<int (*)()>(system_function("openblas_get_num_threads"));
  count.blis = reinterpret_cast<std::int64_t (*)()>(system_function("bli_thread_get_num_threads"));
  count.mkl = reinterpret_cast<int (*)()>(system_function("MKL_Get_Max_Threads"));
  if (const char* named = env("OMP_NUM_THREADS")) count.fixed = std::atoi(named);
  if (count.fixed < 1) count.fixed = 1;
  return count;
}

}  // namespace

void* system_function(const char* name) {
  static void* const library = open_system();
  return dlsym(library, name);
}

void* system_function_64(const char* name) {
  static void* const library = open_system_64();
  return library == nullptr ? nullptr : dlsym(library, name);
}

int threads_now() {
  static const ThreadCount count = find_thread_count();
  // Where the program has no OpenMP, there are no regions.
  static int (*const in_parallel)() =
      reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_in_parallel"));
  if (in_parallel != nullptr && in_parallel() != 0) return 1;
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
