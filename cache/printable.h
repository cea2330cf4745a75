// Text out of a database file, made fit for messages, terminals and JSON.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// `text` as valid UTF-8 without control characters but tab and line feed: each byte that belongs
/// to none becomes "\xNN". A file may hold any bytes where kiln wrote text, and a terminal obeys
/// escape sequences.
std::string printable(std::string_view text);

}  // namespace kiln
