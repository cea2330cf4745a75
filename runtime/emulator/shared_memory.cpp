#include "runtime/emulator/shared_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace kiln::emu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kUnit = 16;

std::size_t pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Arena::Arena(std::size_t bytes) : mapped_(pages(std::max<std::size_t>(bytes, 1)) + 2 * kPage) {
  void* mapping = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<unsigned char*>(mapping);
  limit(capacity());
}

void Arena::limit(std::size_t bytes) {
  const std::size_t wanted = pages(bytes);
  if (wanted == readable_) return;
  const std::size_t common = std::min(wanted, readable_);
  const int access = wanted > readable_ ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (::mprotect(data() + common, std::max(wanted, readable_) - common, access) != 0)
    throw std::bad_alloc();
  readable_ = wanted;
}

Arena::~Arena() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

unsigned char* Arena::data() const { return mapping_ + kPage; }
std::size_t Arena::capacity() const { return mapped_ - 2 * kPage; }

bool Arena::owns(const void* address) const {
  const auto* at = static_cast<const unsigned char*>(address);
  return at >= mapping_ && at < mapping_ + mapped_;
}

SharedMemory::SharedMemory(std::size_t most_bytes) : dynamic_(most_bytes), variables_(most_bytes) {}

void SharedMemory::reset(std::uint32_t rank, std::size_t dynamic_bytes) {
  assert(dynamic_bytes <= dynamic_.capacity());
  rank_ = rank;
  dynamic_.limit(dynamic_bytes);
  std::memset(dynamic_.data(), kPoison, pages(dynamic_bytes));
  std::memset(variables_.data(), kPoison, variable_bytes_);
  dynamic_bytes_ = dynamic_bytes;
  variable_bytes_ = 0;
  known_.clear();
  writer_.assign(dynamic_bytes / kUnit + 1, kNobody);
  stores_.clear();
}

unsigned char* SharedMemory::variable(int number, std::size_t bytes) {
  auto& known = known_[{number, bytes}];
  if (known == nullptr) {
    const std::size_t begin = (variable_bytes_ + kUnit - 1) / kUnit * kUnit;
    if (begin + bytes > variables_.capacity()) return nullptr;
    known = variables_.data() + begin;
    std::memset(known, kPoison, bytes);
    variable_bytes_ = begin + bytes;
  }
  return known;
}

std::optional<std::uint32_t> SharedMemory::address(const void* pointer) const {
  const auto* at = static_cast<const unsigned char*>(pointer);
  const std::uint32_t high = rank_ << kRankShift;
  if (at >= dynamic_.data() && at <= dynamic_.data() + dynamic_bytes_)
    return high | (kDynamicBase + static_cast<std::uint32_t>(at - dynamic_.data()));
  if (at >= variables_.data() && at <= variables_.data() + variable_bytes_)
    return high | (kVariablesBase + static_cast<std::uint32_t>(at - variables_.data()));
  return std::nullopt;
}

unsigned char* SharedMemory::at(std::uint32_t address, std::size_t bytes) const {
  const std::uint32_t place = address & ((1u << kRankShift) - 1);
  const bool variable = place >= kVariablesBase;
  const std::uint32_t base = variable ? kVariablesBase : kDynamicBase;
  const std::size_t size = variable ? variable_bytes_ : dynamic_bytes_;
  if (place < base || place - base > size || bytes > size - (place - base)) return nullptr;
  return (variable ? variables_ : dynamic_).data() + (place - base);
}

bool SharedMemory::owns(const void* pointer) const {
  return dynamic_.owns(pointer) || variables_.owns(pointer);
}

std::optional<std::string> SharedMemory::damage() const {
  const unsigned char* end = dynamic_.data() + pages(dynamic_bytes_);
  const unsigned char* begin = dynamic_.data() + dynamic_bytes_;
  const auto* changed = std::find_if(begin, end, [](unsigned char c) { return c != kPoison; });
  if (changed == end) return std::nullopt;
  return fmt::format("{} bytes behind the {} bytes of shared memory were written to",
                     changed - begin, dynamic_bytes_);
}

void SharedMemory::stored(std::uint32_t address, std::size_t bytes, std::uint16_t writer) {
  const std::uint32_t place = (address & ((1u << kRankShift) - 1)) - kDynamicBase;
  if (place >= dynamic_bytes_) return;  // variables are never read by an engine
  if (stores_.size() <= writer) stores_.resize(writer + std::size_t{1});
  for (std::size_t unit = place / kUnit; unit <= (place + bytes - 1) / kUnit; ++unit) {
    if (writer_[unit] == writer) continue;
    writer_[unit] = writer;
    stores_[writer].push_back(static_cast<std::uint32_t>(unit));
  }
}

void SharedMemory::stored_by_engine(std::uint32_t address, std::size_t bytes) {
  const std::uint32_t place = (address & ((1u << kRankShift) - 1)) - kDynamicBase;
  if (place >= dynamic_bytes_) return;
  for (std::size_t unit = place / kUnit; unit <= (place + bytes - 1) / kUnit; ++unit)
    writer_[unit] = kNobody;
}

void SharedMemory::fenced(std::uint16_t writer) {
  if (stores_.size() <= writer) return;
  for (const std::uint32_t unit : stores_[writer])
    if (writer_[unit] == writer) writer_[unit] = kNobody;
  stores_[writer].clear();
}

std::uint16_t SharedMemory::unfenced(std::uint32_t address, std::size_t bytes) const {
  const std::uint32_t place = (address & ((1u << kRankShift) - 1)) - kDynamicBase;
  if (place >= dynamic_bytes_) return kNobody;
  for (std::size_t unit = place / kUnit; unit <= (place + bytes - 1) / kUnit; ++unit)
    if (writer_[unit] != kNobody) return writer_[unit];
  return kNobody;
}

}  // namespace kiln::emu
