// data/mfma_layouts.tar.zst: where every element of every matrix instruction lies, as recorded from
// AMD's calculator and hardware tests.
#pragma once

#include <zstd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.h"

namespace kiln::test {

/// Files of the archive by name.
inline std::map<std::string, std::string> mfma_layout_files() {
  std::ifstream file(source_dir() + "/data/mfma_layouts.tar.zst", std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(file), {}};
  std::string tar(8 << 20, '\0');
  const std::size_t size = ZSTD_decompress(tar.data(), tar.size(), packed.data(), packed.size());
  if (ZSTD_isError(size)) return {};
  std::map<std::string, std::string> files;
  // ustar: blocks of 512 bytes, a header with the name and, in octal, the size; then the bytes.
  for (std::size_t at = 0; at + 512 <= size && tar[at] != '\0';) {
    const std::string name = tar.substr(at, ::strnlen(tar.data() + at, 100));
    const auto bytes = std::strtoull(tar.substr(at + 124, 11).c_str(), nullptr, 8);
    files[name] = tar.substr(at + 512, bytes);
    at += 512 + (bytes + 511) / 512 * 512;
  }
  return files;
}

/// A CSV's rows after its heading.
inline std::vector<std::vector<std::string>> csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    rows.emplace_back();
    for (std::size_t begin = 0; begin <= line.size();) {
      const auto end = std::min(line.find(',', begin), line.size());
      rows.back().push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return rows;
}

}  // namespace kiln::test
