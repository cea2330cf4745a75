// Runs compiler code so that a fatal error inside it comes back as text. Knows nothing of
// compiling.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace kiln::clang_side {

/// Calls `work` on a stack of its own. Nothing when it returned; otherwise why it did not: the back
/// end's fatal error or the signal. What `work` held is leaked then, its stack too, so this is for
/// rare events. Throws what `work` throws, and std::system_error when no thread can be had.
std::optional<std::string> run_guarded(const std::function<void()>& work);

}  // namespace kiln::clang_side
