// The one place where the hooks read the environment: they include only kiln's public headers.
#pragma once

#include <stdlib.h>

namespace kiln::hooks {

/// The value of an environment variable; null where it is unset, and in a program that runs with
/// more rights than the user who started it, as kiln's own env() (runtime/env.h).
inline const char* env(const char* name) { return ::secure_getenv(name); }

}  // namespace kiln::hooks
