#include "soak/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "soak/mutate_rows.h"
#include "soak/soak.h"

namespace kiln::soak {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kPage = 4096, kHeader = 100;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

char any_byte(Random& random) { return static_cast<char>(random.below(256)); }

std::string any_bytes(Random& random, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = any_byte(random);
  return bytes;
}

std::string flip_bits(std::string& bytes, std::size_t from, std::size_t to, Random& random) {
  const std::size_t count = 1 + below(random, 16);
  for (std::size_t i = 0; i < count && to > from; ++i)
    bytes[from + below(random, to - from)] ^= static_cast<char>(1 << random.below(8));
  return fmt::format("{} bits of {} to {} flipped", count, from, to);
}

std::string change_page(std::string& bytes, Random& random) {
  const std::size_t pages = bytes.size() / kPage;
  if (pages < 2) return "one page";
  const std::size_t one = below(random, pages), other = below(random, pages);
  char* at = bytes.data() + one * kPage;
  char* from = bytes.data() + other * kPage;
  switch (random.below(4)) {
    case 0:
      std::swap_ranges(at, at + kPage, from);
      return fmt::format("pages {} and {} exchanged", one, other);
    case 1:
      std::copy_n(from, kPage, at);
      return fmt::format("page {} over page {}", other, one);
    case 2:
      std::fill_n(at, kPage, '\0');
      return fmt::format("page {} zeroed", one);
    default:
      std::generate_n(at, kPage, [&] { return any_byte(random); });
      return fmt::format("page {} overwritten", one);
  }
}

std::string change_length(std::string& bytes, Random& random) {
  const std::size_t at = below(random, bytes.size() + 1);
  switch (random.below(5)) {
    case 0:
      bytes.resize(at);
      return fmt::format("cut to {} bytes", at);
    case 1:
      bytes.resize(at / kPage * kPage);
      return fmt::format("cut to {} pages", at / kPage);
    case 2:
      bytes += any_bytes(random, 1 + below(random, 3 * kPage));
      return "bytes appended";
    case 3:
      bytes.insert(at, any_bytes(random, 1 + below(random, 64)));
      return fmt::format("bytes inserted at {}", at);
    default:
      bytes.erase(at, 1 + below(random, 64));
      return fmt::format("bytes removed at {}", at);
  }
}

std::string change_bytes(const fs::path& path, Random& random) {
  std::string bytes = read(path);
  if (bytes.empty()) return "empty";
  std::string what;
  switch (random.below(5)) {
    case 0:
      what = flip_bits(bytes, 0, std::min(kHeader, bytes.size()), random);
      break;
    case 1: {
      const std::size_t page =
          below(random, std::max<std::size_t>(1, bytes.size() / kPage)) * kPage;
      what = flip_bits(bytes, page, std::min(page + kPage, bytes.size()), random);
      break;
    }
    case 2:
      what = flip_bits(bytes, 0, bytes.size(), random);
      break;
    case 3:
      what = change_page(bytes, random);
      break;
    default:
      what = change_length(bytes, random);
  }
  write(path, bytes);
  return what;
}

/// A log that SQLite would replay: garbage, garbage behind a right header, or pages of the file
/// itself.
std::string put_beside(const fs::path& path, Random& random) {
  static constexpr const char* kSuffixes[] = {"-wal", "-journal", "-shm"};
  const std::string suffix = any_of(random, kSuffixes);
  std::string bytes = any_bytes(random, below(random, 4 * kPage));
  if (one_in(random, 2)) {
    const std::string wal("\x37\x7f\x06\x82\x00\x2d\xe2\x18\x00\x00\x10\x00", 12);
    const std::string journal("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7\x00\x00\x00\x01", 12);
    bytes = (suffix == "-journal" ? journal : wal) + bytes;
  }
  if (one_in(random, 3)) bytes += read(path).substr(0, 2 * kPage);
  write(path.string() + suffix, bytes);
  return fmt::format("{} bytes of {}", bytes.size(), suffix);
}

}  // namespace

std::string mutate_file(const fs::path& path, Random& random) {
  std::string done;
  const std::size_t steps = 1 + below(random, 3);
  for (std::size_t i = 0; i < steps; ++i) {
    if (i > 0) done += "; ";
    switch (random.below(8)) {
      case 0:
      case 1:
        done += change_bytes(path, random);
        break;
      case 2:
        done += put_beside(path, random);
        break;
      default:
        done += change_rows(path, random);
    }
  }
  return done;
}

}  // namespace kiln::soak
