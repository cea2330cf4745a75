/// @file
/// Where kiln's messages go, and how many of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "kiln/export.h"

namespace kiln {

/// How grave a message is, gravest first: a level shows itself and those before it.
enum class LogLevel : std::uint8_t { off, error, warn, info, debug };

/// Hears a message: one sentence without a line break at its end, valid during the call.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

/// From now on `callback` gets the messages of this process that the level lets through, in place
/// of stderr; an empty one gives them back to stderr. Any thread may call this at any time, and
/// messages come from any thread, several at once. When it returns, the callback before is not
/// running any more and never will, except on the thread that calls this from inside of it. What a
/// callback throws is dropped. A callback may call kiln; its own messages reach it as well.
KILN_API void set_log(LogCallback callback);

/// Lets messages up to this level through, whatever $KILN_LOG says.
KILN_API void set_log_level(LogLevel level);

}  // namespace kiln
