#include "runtime/cuda/disassembler.h"

#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "runtime/env.h"

namespace kiln::cuda {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> find_nvdisasm() {
  std::vector<fs::path> folders;
  const char* search = env("PATH");
  std::istringstream path(search == nullptr ? "" : search);
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = env(variable); root != nullptr && *root != '\0')
      folders.push_back(fs::path(root) / "bin");
  folders.emplace_back("/usr/local/cuda/bin");
  std::error_code none;
  for (const fs::path& folder : folders)
    if (fs::is_regular_file(folder / "nvdisasm", none)) return folder / "nvdisasm";
  return std::nullopt;
}

/// A file with these bytes for as long as this lives.
class ScratchFile {
 public:
  explicit ScratchFile(std::span<const std::byte> bytes) : name_("/tmp/kiln-cubin-XXXXXX") {
    const int fd = ::mkstemp(name_.data());
    if (fd < 0) return;
    written_ = ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    ::close(fd);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { ::unlink(name_.c_str()); }
  bool written() const { return written_; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  bool written_ = false;
};

}  // namespace

Result<std::string> disassemble(std::span<const std::byte> cubin) {
  const auto program = find_nvdisasm();
  if (!program)
    return fail(
        ErrorCode::device,
        "there is no nvdisasm in PATH, CUDA_HOME or /usr/local/cuda, and nothing else reads "
        "a cubin's instructions: install CUDA's nvdisasm, or take --asm, which prints PTX");
  const ScratchFile file(cubin);
  if (!file.written())
    return fail(ErrorCode::device, fmt::format("{}: cannot be written", file.name()));
  const std::string command = fmt::format("'{}' '{}' 2>&1", program->string(), file.name());
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return fail(ErrorCode::device, command + ": cannot be started");
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t n = ::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), n);
  if (::pclose(pipe) != 0) return fail(ErrorCode::device, fmt::format("{}: {}", command, text));
  return text;
}

}  // namespace kiln::cuda
