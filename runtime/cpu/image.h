// Linked host code in memory, mapped and ready to call: memfd + dlopen, no compiler involved. Knows
// no kernels.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kiln/error.hpp"

namespace kiln {

/// Move-only owner of one loaded shared object.
class LoadedImage {
 public:
  /// Errors: bad_input (no shared object for this machine, a cut one, one that the linker refuses);
  /// device (the system refused: no descriptor, no memory, no execution of memory files), which
  /// says nothing about the image.
  static Result<LoadedImage> load(std::span<const std::byte> image);
  /// Opens what images need beside themselves, which the first load does otherwise: from then on a
  /// load opens nothing but its memory file.
  static void prepare();
  LoadedImage() = default;
  LoadedImage(LoadedImage&& other) noexcept;
  LoadedImage& operator=(LoadedImage&& other) noexcept;
  ~LoadedImage();

  /// Null when the image has no such name.
  void* symbol(const char* name) const;

 private:
  void* handle_ = nullptr;
};

/// bad_input: the error of bytes that hold no kernel.
tl::unexpected<Error> not_a_kernel(std::string_view reason);

}  // namespace kiln
