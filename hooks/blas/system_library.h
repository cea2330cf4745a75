// The BLAS library that a program would have without the hook: opened on the first call, never
// closed. Knows nothing of kernels.
#pragma once

namespace kiln::hooks {

/// `name` of the library that kiln::blas_library() names. Null: it has no such function. Ends the
/// process with a message where there is no library.
void* system_function(const char* name);

/// The same of a library with 64-bit integers: $KILN_BLAS64, else an OpenBLAS that is installed.
/// Null where there is none.
void* system_function_64(const char* name);

/// How many threads a call of the system's library would use now: as it was told by its own
/// functions or by the environment, and one inside of an OpenMP parallel region.
int threads_now();

/// Ends the process: a function that was called is in no library.
[[noreturn]] void no_such_function(const char* name);

}  // namespace kiln::hooks
