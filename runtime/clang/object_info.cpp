#include "runtime/clang/object_info.h"

#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/DataExtractor.h>

#include <algorithm>
#include <cstdint>

namespace kiln::clang_side {
namespace {

// Pairs of an 8-byte address, zero before relocation, and a ULEB128 size.
std::uint64_t largest_frame(llvm::StringRef section) {
  const llvm::DataExtractor data(section, /*IsLittleEndian=*/true, /*AddressSize=*/8);
  std::uint64_t largest = 0;
  for (llvm::DataExtractor::Cursor at(0); at && !data.eof(at);) {
    data.skip(at, 8);
    largest = std::max(largest, data.getULEB128(at));
    if (!at) {
      llvm::consumeError(at.takeError());
      break;
    }
  }
  return largest;
}

}  // namespace

ObjectInfo inspect_object(std::string_view object) {
  ObjectInfo info;
  auto parsed = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "object"));
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return info;
  }
  for (const auto& section : (*parsed)->sections()) {
    if (section.isText()) info.code_bytes += static_cast<long long>(section.getSize());
    auto name = section.getName();
    auto contents = section.getContents();
    if (name && contents && *name == ".stack_sizes")
      info.stack_bytes =
          std::max(info.stack_bytes, static_cast<long long>(largest_frame(*contents)));
    if (!name) llvm::consumeError(name.takeError());
    if (!contents) llvm::consumeError(contents.takeError());
  }
  return info;
}

}  // namespace kiln::clang_side
