// Files without a file system, for a library that wants paths. Knows nothing of what is in them.
#pragma once

#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace kiln::clang_side {

/// Bytes that others may read under `path()`.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();
  std::string path() const;
  bool good() const { return good_; }

 private:
  int fd_;
  bool good_;
};

/// A path that others may write to once, from front to back; collects what they wrote. It is a
/// pipe: a library that would replace a regular file by renaming another onto it writes straight
/// into this.
class OutputFile {
 public:
  OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();
  std::string path() const;
  bool good() const { return good_; }
  /// What has been written until now; nothing more is taken. A writer that died with the path open
  /// does not hold this up.
  std::vector<char> finish();

 private:
  void collect();

  int read_ = -1, write_ = -1, stop_ = -1;
  bool good_ = false;
  std::vector<char> bytes_;
  std::thread reader_;
};

}  // namespace kiln::clang_side
