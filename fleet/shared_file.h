// Files in a folder that others may write as well: no link is followed, nothing but regular files
// is read, no more than a file of its kind may hold, and what is written takes a file's place
// whole. Knows no fleet.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "kiln/error.hpp"

namespace kiln {

/// Of a list of 500,000 shapes, or the log of as many.
inline constexpr std::size_t kMostSharedBytes = 64 << 20;

/// Errors: database, naming the file (absent, a link, a FIFO, …, larger than `most`).
Result<std::string> read_shared(const std::filesystem::path& file,
                                std::size_t most = kMostSharedBytes);
/// The new file takes the place of what has the name, of a link too. Errors: database.
Status write_shared(const std::filesystem::path& file, const std::string& text);
/// Never over another's: false where the name is there. Errors: database.
Result<bool> create_shared(const std::filesystem::path& file, const std::string& text);
/// An empty file of this user with a name of its own beside `file`, to be written and renamed.
Result<std::filesystem::path> empty_beside(const std::filesystem::path& file);

/// A folder that only its owner may write, whatever the umask: machine code is loaded from no
/// other. One that is there stays as it is. Errors: database (a link, no folder, cannot be made).
Status make_shared_folder(const std::filesystem::path& path);
/// Errors: bad_input, naming the option `out`, where everybody may write the folder: then a name in
/// it is whatever they make of it.
Status not_for_everybody(const std::filesystem::path& folder);

}  // namespace kiln
