#include "runtime/cpu/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/memory_file.h"

namespace kiln {

tl::unexpected<Error> not_a_kernel(std::string_view reason) {
  return fail(ErrorCode::bad_input, fmt::format("kernel image: {}", reason));
}

namespace {

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#else
#error "host kernels are loaded on x86-64 and AArch64 only"
#endif

Status check_table(std::string_view what, std::uint64_t begin, std::uint64_t bytes,
                   std::uint64_t count, std::uint64_t size) {
  if (begin <= size && bytes <= size - begin) return {};
  return not_a_kernel(
      fmt::format("{} {} at byte {} do not fit its {} bytes", count, what, begin, size));
}

// The dynamic linker maps segments without comparing them with the file's size, and a page beyond
// its end is a SIGBUS at the first touch: a cut image must be refused here. lld writes the section
// headers last, so that any cut shows in one of the two tables.
Status check_whole(std::span<const std::byte> image, const Elf64_Ehdr& header) {
  const std::uint64_t size = image.size();
  if (auto ok =
          check_table("program headers", header.e_phoff,
                      std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), header.e_phnum, size);
      !ok)
    return ok;
  if (auto ok =
          check_table("section headers", header.e_shoff,
                      std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), header.e_shnum, size);
      !ok)
    return ok;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, image.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)
      return not_a_kernel(fmt::format("segment {} is {} bytes at byte {} of {}", i,
                                      segment.p_filesz, segment.p_offset, size));
  }
  return {};
}

Status check_image(std::span<const std::byte> image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof(header))
    return not_a_kernel(fmt::format("{} bytes are too few for an ELF header", image.size()));
  std::memcpy(&header, image.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return not_a_kernel("no ELF magic");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    return not_a_kernel(fmt::format("ELF class {} and byte order {}, not 64-bit little-endian",
                                    header.e_ident[EI_CLASS], header.e_ident[EI_DATA]));
  if (header.e_machine != kMachine)
    return not_a_kernel(fmt::format("made for ELF machine {}, this one is {}",
                                    unsigned{header.e_machine}, kMachine));
  if (header.e_type != ET_DYN)
    return not_a_kernel(fmt::format("ELF type {} is not a shared object", unsigned{header.e_type}));
  return check_whole(image, header);
}

// A path no earlier load used. The dynamic linker takes two equal paths for one object, and
// descriptor numbers are reused once closed: a bare "/proc/self/fd/5" would return an older kernel.
// So the serial is spelled in bits of "/." and "//", which the file system reads as nothing.
std::string distinct_path(int fd, std::uint64_t serial) {
  std::string path = "/proc/self/fd";
  for (; serial != 0; serial >>= 1) path += (serial & 1) != 0 ? "/." : "//";
  return path + fmt::format("/{}", fd);
}

// Whether the dynamic linker was refused by the system: its message ends with the words of an errno
// then. What it finds wrong with an image it says in words of its own.
bool tells_errno(std::string_view said) {
  constexpr int kLastErrno = 133;
  if (said == "out of memory") return true;  // for want of memory for a message
  for (int error = 1; error <= kLastErrno; ++error)
    if (said.ends_with(fmt::format(": {}", std::strerror(error)))) return true;
  return false;
}

// Kernels call expf, erff, tanhf by name and carry no list of libraries. A program that got kiln by
// dlopen may have libm only in a private scope; this puts it where every kernel finds it.
void load_libm() {
  static void* const libm = ::dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  static_cast<void>(libm);
}

}  // namespace

Result<LoadedImage> LoadedImage::load(std::span<const std::byte> image) {
  static std::atomic<std::uint64_t> loads{0};
  if (auto ok = check_image(image); !ok) return tl::unexpected(ok.error());
  load_libm();

  const std::uint64_t serial = ++loads;
  const auto file = memory_file(fmt::format("kiln-kernel-{}", serial), image);
  if (!file) return tl::unexpected(file.error());

  LoadedImage loaded;
  loaded.handle_ = ::dlopen(distinct_path(file->get(), serial).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded.handle_ == nullptr) {
    const std::string_view said = ::dlerror();
    if (tells_errno(said))
      return fail(ErrorCode::device, fmt::format("kernel image: dlopen: {}", said));
    return not_a_kernel(fmt::format("dlopen: {}", said));
  }
  return loaded;
}

void LoadedImage::prepare() { load_libm(); }

LoadedImage::LoadedImage(LoadedImage&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}

LoadedImage& LoadedImage::operator=(LoadedImage&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

LoadedImage::~LoadedImage() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* LoadedImage::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace kiln
