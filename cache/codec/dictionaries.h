// What kernels have in common, as zstd dictionaries that are part of the library: a stored one then
// takes the bytes that are its own. A frame names its dictionary by number. A number stands for the
// same bytes for ever, since files hold frames that were made with it; a new dictionary gets a
// number of its own, a row here and a schema version (cache/layers/schema.cpp), so that an older
// kiln refuses the file. scripts/dictionary makes them. Knows no zstd and no database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kiln {

/// What bytes to be stored are.
enum class Content : std::uint8_t {
  other,   // no dictionary: fitted models, tables of ranges, code of other machines
  source,  // kernel text
  cubin,   // linked code of NVIDIA GPUs
  x86,     // linked code of CPUs
};

/// Of linked code, by the machine that its ELF header names.
Content content_of(std::span<const std::byte> image);

struct Dictionary {
  unsigned id;  // in 32768 to 65535: for private use, as zstd has it, and two bytes in a frame
  Content content;
  std::span<const std::byte> bytes;
};

/// All of them: frames are made with the last one of their content and read with any.
std::span<const Dictionary> dictionaries();

}  // namespace kiln
