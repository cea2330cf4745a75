// Whether anybody but root and this user can have written a database file: machine code is loaded
// from no other. Knows paths, owners and modes; nothing of SQLite.
//
// A file is trusted when
// - every directory from "/" to the file is owned by root or this user, and no one else may write
//   it. Two exceptions: (a) a directory may be writable if it has the sticky bit, like /tmp: there
//   other users can neither remove nor rename entries of root or this user. Where that is the
//   file's own directory, others could still place a log beside the file, which SQLite would
//   replay; so the names of its logs are taken by files of this user before it is opened
//   (claim_logs), or it is opened without any (cache/layers/layer.cpp). (b) A directory may be
//   writable by its owner's private group, as a umask of 002 makes it.
// - no part of the path lies on a FUSE file system that another user mounted: any owner and mode
//   that it reports is that user's word.
// - the file and the logs beside it are owned by root or this user, and neither group nor others
//   may write them. Files have no exception for private groups: kiln creates them with mode 0644
//   whatever the umask.
#pragma once

#include <sys/types.h>

#include <array>
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

/// Empty when nobody but root and `user` can change what those of the directory's names stand for
/// that are root's or `user`'s; else why not, with the path and its owner or mode.
std::string distrust_directory(const PathEntry& directory, uid_t user);
/// Whether others may make files there, and the sticky bit keeps them from exchanging those of this
/// user.
bool is_shared(const PathEntry& directory);
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
  std::string distrust;             // empty: trusted
  bool shared = false;              // its folder is: see is_shared()
  bool foreign_log = false;         // others may have written a log beside it
  std::array<FileId, 3> logs = {};  // kLogSuffixes; without inode: there is none
};
inline constexpr std::array kLogSuffixes{"-wal", "-shm", "-journal"};

/// Walks to `file`, or to what it links to, opening nothing for reading. Errors: database (no such
/// file; it or a log beside it is not a regular file), naming it.
Result<WalkedFile> walk_to(const std::filesystem::path& file);
Result<WalkedFile> walk_to(const std::filesystem::path& file, uid_t user);

/// Makes the logs that are missing beside a file in a shared folder, empty, so that nobody else
/// can. Errors: database, naming what could not be created.
Status claim_logs(const WalkedFile& walked);

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
