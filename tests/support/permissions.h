// Gives up root's right to write whatever the permissions say.
#pragma once

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kiln::test {

/// From here on this process writes only where permissions let it, root too. It is not made another
/// user: a checkout may lie where only its owner can read, and the compiler is loaded from there.
inline bool obey_permissions() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  constexpr unsigned kOverride = 1u << CAP_DAC_OVERRIDE;
  sets[0].effective &= ~kOverride;
  sets[0].permitted &= ~kOverride;  // what access(2) goes by
  return ::syscall(SYS_capset, &header, sets) == 0;
}

}  // namespace kiln::test
