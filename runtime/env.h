// The one place where kiln reads the environment (hooks/common/env.h is that of the hooks). Knows
// no variable by name.
#pragma once

#include <stdlib.h>
#include <sys/auxv.h>

namespace kiln {

/// The value of an environment variable; null where it is unset, and in a program that runs with
/// more rights than the user who started it (setuid, setgid, file capabilities). Variables name
/// libraries and programs that kiln runs and files that it writes: there the user would choose what
/// runs, and is written, with rights that are not the user's.
inline const char* env(const char* name) { return ::secure_getenv(name); }

/// Whether env() finds nothing because this program has more rights than its user.
inline bool env_is_foreign() { return ::getauxval(AT_SECURE) != 0; }

}  // namespace kiln
