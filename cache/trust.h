// Whether anybody but root and this user can have written a database file: machine code is loaded
// from no other. Knows paths, owners and modes; nothing of SQLite.
//
// A file is trusted when
// - every directory from "/" to the file is owned by root or this user, and no one else may write
//   it. Two exceptions: (a) a directory above the file's own may be writable if it has the sticky
//   bit, like /tmp: there other users can neither remove nor rename entries of root or this user.
//   The file's own directory may not, because anyone could then place a write-ahead log beside the
//   file. (b) A directory may be writable by its owner's private group, as a umask of 002 makes it.
// - no part of the path lies on a FUSE file system that another user mounted: any owner and mode
//   that it reports is that user's word.
// - the file and the logs beside it are owned by root or this user, and neither group nor others
//   may write them. Files have no exception for private groups: kiln creates them with mode 0644
//   whatever the umask.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <istream>
#include <string>
#include <string_view>

#include "kiln/error.hpp"

namespace kiln {

struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

/// One step of a path, as fstat told it.
struct PathEntry {
  std::string path;
  uid_t owner = 0;
  mode_t mode = 0;             // type and permissions
  bool private_group = false;  // the group is the owner's alone and no access list adds to it
  uid_t mounted_by = 0;        // of a FUSE file system, otherwise root
};

enum class DirectoryRole { above, holds_file };

/// Empty when nobody but root and `user` can change what the directory's names stand for; else why
/// not, with the path and its owner or mode.
std::string distrust_directory(const PathEntry& directory, DirectoryRole role, uid_t user);
/// Empty when nobody but root and `user` can write the file; else why not.
std::string distrust_file(const PathEntry& file, uid_t user);

/// The user who mounted the FUSE file system `device`, from the text of /proc/self/mountinfo;
/// kUnknownUser where it is not listed.
uid_t fuse_user(std::istream& mountinfo, dev_t device);
inline constexpr uid_t kUnknownUser = static_cast<uid_t>(-1);

/// Whether the group is `owner`'s own: its primary group, with its name and no other member. Never
/// root's, which containers with arbitrary user ids share.
bool is_private_group(uid_t owner, gid_t group);

/// A file as one walk from "/" found it.
struct WalkedFile {
  std::filesystem::path path;  // canonical: no links, absolute
  FileId id;
  std::string distrust;  // empty: trusted
};

/// Walks to `file`, or to what it links to, opening nothing for reading. Errors: database (no such
/// file; it or a log beside it is no regular file), naming it.
Result<WalkedFile> walk_to(const std::filesystem::path& file);
Result<WalkedFile> walk_to(const std::filesystem::path& file, uid_t user);

/// Whether a descriptor of this process (but O_PATH ones) is open on the file; true where /proc is
/// not mounted.
bool is_open_here(const FileId& id);

/// Create the missing folders of `file`, and `file` itself, empty. Only their owner may write them,
/// whatever the umask. Errors: database, naming what could not be created (`file` also when it
/// exists already).
Status make_folders_of(const std::filesystem::path& file);
Status make_file(const std::filesystem::path& file);

/// "a FIFO", "a directory", …
std::string_view kind_of_file(mode_t mode);

}  // namespace kiln
