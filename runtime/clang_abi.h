// The C face of libkiln_clang.so, the in-process compiler. Whoever opens it sees text and bytes
// only: no type of LLVM's and no C++ object crosses, and it must know nothing of problems or
// kernels.
#pragma once

#include <cstddef>

extern "C" {

/// Raised whenever anything below changes shape or meaning.
enum { kKilnClangAbi = 1 };

/// What a job yields: a linked ELF shared object, or assembly text.
enum KilnClangOutput { kKilnClangImage = 0, kKilnClangAssembly = 1 };

struct KilnClangJob {
  const char* source;  // C++ text; it can include nothing, there are no files
  std::size_t source_bytes;
  const char* file_name;  // for diagnostics only
  const char* const* flags;
  std::size_t flag_count;
  KilnClangOutput output;
};

struct KilnClangResult {
  const char* bytes;
  std::size_t byte_count;
  const char* log;    // diagnostics as text, never null
  const char* error;  // null when the job succeeded, else one line that says why it did not
  long long code_bytes;
  long long stack_bytes;  // largest frame of one function
  long long spills;       // registers stored to the stack and fetched again, all functions
  void* owner;
};

/// kKilnClangAbi of the object that was opened: ask before anything else.
using KilnClangAbiFn = int (*)();              // "kiln_clang_abi"
using KilnClangVersionFn = const char* (*)();  // "kiln_clang_version"
/// Runs one job; safe from many threads. The result is always filled, and is given back to free.
using KilnClangCompileFn = void (*)(const KilnClangJob*, KilnClangResult*);  // "kiln_clang_compile"
using KilnClangFreeFn = void (*)(KilnClangResult*);                          // "kiln_clang_free"
}
