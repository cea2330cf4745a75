// Code objects for AMD GPUs, as a database or another compiler may give them: an input that begins
// like ELF is taken as it is, any other is put into a right file as its metadata. Reading ends in a
// report or in an error that says something.
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/hip/code_object.h"

namespace {

using namespace kiln;

constexpr std::uint16_t kMachine = 224;      // EM_AMDGPU
constexpr std::uint32_t kMetadataNote = 32;  // NT_AMDGPU_METADATA
constexpr char kOwner[8] = "AMDGPU";         // with its end, padded to four bytes

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), first, first + sizeof value);
}

/// A file with one section, a note that holds `metadata`.
std::vector<std::byte> with_metadata(const std::uint8_t* metadata, std::size_t size) {
  std::vector<std::byte> notes;
  append(notes, Elf64_Nhdr{7, static_cast<Elf64_Word>(size), kMetadataNote});
  append(notes, kOwner);
  const auto* first = reinterpret_cast<const std::byte*>(metadata);
  notes.insert(notes.end(), first, first + size);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = kMachine;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 1;
  Elf64_Shdr section{};
  section.sh_type = SHT_NOTE;
  section.sh_offset = sizeof header + sizeof section;
  section.sh_size = notes.size();
  std::vector<std::byte> file;
  append(file, header);
  append(file, section);
  file.insert(file.end(), notes.begin(), notes.end());
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const bool whole = size >= SELFMAG && std::memcmp(data, ELFMAG, SELFMAG) == 0;
  const auto* first = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> image =
      whole ? std::vector<std::byte>(first, first + size) : with_metadata(data, size);
  const auto object = hip::read_code_object(image);
  if (!object) {
    if (object.error().message.empty()) std::abort();
    return 0;
  }
  (void)hip::report_of(*object);
  static const DeviceCaps device = caps_named("gfx942").value();
  for (const auto& kernel : object->kernels) {
    if (hip::resident_blocks(kernel, device, 256) < 0) std::abort();
    if (hip::occupancy(kernel, device, 256) < 0) std::abort();
  }
  return 0;
}
