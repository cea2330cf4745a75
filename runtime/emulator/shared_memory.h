// A block's shared memory in the emulator: poisoned before use, with unreadable pages around it,
// and with a note on every 16 bytes that ordinary stores wrote and no fence has made visible to the
// copy engine and the matrix units ("the async proxy"). Knows no barriers and no instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::emu {

/// Memory between two unreadable pages. Move-only.
class Arena {
 public:
  explicit Arena(std::size_t bytes);
  Arena(Arena&& other) noexcept
      : mapping_(std::exchange(other.mapping_, nullptr)),
        mapped_(other.mapped_),
        readable_(other.readable_) {}
  Arena& operator=(Arena&&) = delete;
  ~Arena();
  unsigned char* data() const;
  std::size_t capacity() const;
  /// Makes what lies behind the first `bytes` unreadable, to whole pages.
  void limit(std::size_t bytes);
  /// Whether `address` lies in the memory or the pages around it.
  bool owns(const void* address) const;

 private:
  unsigned char* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::size_t readable_ = 0;
};

class SharedMemory {
 public:
  /// Where memory of either kind begins in the 24 bits of a block's addresses: not at 0, so that a
  /// forgotten base shows.
  static constexpr std::uint32_t kDynamicBase = 1024, kVariablesBase = 0x400000;
  static constexpr int kRankShift = 24;
  static constexpr unsigned char kPoison = 0xff;  // NaN in every floating type
  static constexpr std::uint16_t kNobody = 0;

  explicit SharedMemory(std::size_t most_bytes);

  /// For a new block: everything unwritten.
  void reset(std::uint32_t rank, std::size_t dynamic_bytes);
  unsigned char* dynamic() const { return dynamic_.data(); }
  /// The variable's memory; the same for every lane. Null when there is no more.
  unsigned char* variable(int number, std::size_t bytes);

  /// The 32-bit address of a pointer; nothing when it points elsewhere.
  std::optional<std::uint32_t> address(const void* pointer) const;
  /// `bytes` bytes at an address (its rank bits are not looked at); null when any lies outside.
  unsigned char* at(std::uint32_t address, std::size_t bytes) const;
  bool owns(const void* pointer) const;
  /// The first byte behind the dynamic memory that is no longer poison, as a sentence.
  std::optional<std::string> damage() const;

  /// Notes an ordinary store by `writer` (1 and up), an asynchronous one, or a fence by `writer`.
  void stored(std::uint32_t address, std::size_t bytes, std::uint16_t writer);
  void stored_by_engine(std::uint32_t address, std::size_t bytes);
  void fenced(std::uint16_t writer);
  /// The lane whose store of any of these bytes no fence has followed; kNobody when there is none.
  std::uint16_t unfenced(std::uint32_t address, std::size_t bytes) const;

 private:
  std::uint32_t rank_ = 0;
  std::size_t dynamic_bytes_ = 0, variable_bytes_ = 0;
  Arena dynamic_, variables_;
  std::map<std::pair<int, std::size_t>, unsigned char*> known_;
  std::vector<std::uint16_t> writer_;               // of each 16 bytes of dynamic memory
  std::vector<std::vector<std::uint32_t>> stores_;  // of each writer since its last fence
};

}  // namespace kiln::emu
