// Text out of a database file, made fit for messages, terminals and JSON.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// `text` as valid UTF-8 without control characters but tab and line feed: each byte that belongs
/// to none becomes "\xNN". A file may hold any bytes where kiln wrote text, and a terminal obeys
/// escape sequences.
std::string printable(std::string_view text);
/// The same for what is one line wherever it is shown: also without tabs and line feeds, with which
/// a file could add lines of its own to a list.
std::string printable_line(std::string_view text);

}  // namespace kiln
