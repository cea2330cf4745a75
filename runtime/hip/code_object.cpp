#include "runtime/hip/code_object.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace kiln::hip {
namespace {

constexpr std::uint16_t kMachine = 224;      // EM_AMDGPU
constexpr std::uint32_t kMetadataNote = 32;  // NT_AMDGPU_METADATA

using Bytes = std::span<const std::byte>;

tl::unexpected<Error> unreadable(std::string_view what) {
  return fail(ErrorCode::compiler, fmt::format("code object: {}", what));
}

template <typename T>
std::optional<T> at(Bytes image, std::uint64_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, image.data() + offset, sizeof(T));
  return value;
}

std::optional<Bytes> part(Bytes image, std::uint64_t offset, std::uint64_t size) {
  if (offset > image.size() || image.size() - offset < size) return std::nullopt;
  return image.subspan(offset, size);
}

/// The metadata among a section's notes, if it is there.
std::optional<Bytes> metadata_in(Bytes notes) {
  const auto padded = [](std::uint64_t n) { return (n + 3) / 4 * 4; };
  for (std::uint64_t offset = 0;;) {
    const auto header = at<Elf64_Nhdr>(notes, offset);
    if (!header) return std::nullopt;
    const std::uint64_t name = offset + sizeof(Elf64_Nhdr);
    const std::uint64_t description = name + padded(header->n_namesz);
    const auto owner = part(notes, name, header->n_namesz);
    if (!owner) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(owner->data()), owner->size());
    if (header->n_type == kMetadataNote && text == std::string_view("AMDGPU\0", 7))
      return part(notes, description, header->n_descsz);
    offset = description + padded(header->n_descsz);
  }
}

/// 0 where there is none, and no more than `most`: the file may be hostile, and what is made of a
/// count must not overflow.
std::int64_t number_in(const nlohmann::json& j, const char* key, std::int64_t most) {
  const auto found = j.find(key);
  if (found == j.end() || !found->is_number_integer()) return 0;
  if (found->is_number_unsigned())
    return static_cast<std::int64_t>(
        std::min(found->get<std::uint64_t>(), static_cast<std::uint64_t>(most)));
  return std::clamp<std::int64_t>(found->get<std::int64_t>(), 0, most);
}

KernelResources kernel_from(const nlohmann::json& j) {
  constexpr std::int64_t kMostCount = 1 << 20, kMostBytes = std::int64_t{1} << 40;
  const auto count = [&](const char* key) {
    return static_cast<int>(number_in(j, key, kMostCount));
  };
  KernelResources k;
  k.name = j.value(".name", std::string());
  k.vector_registers = count(".vgpr_count");
  k.accumulation_registers = count(".agpr_count");
  k.scalar_registers = count(".sgpr_count");
  k.vector_spills = count(".vgpr_spill_count");
  k.scalar_spills = count(".sgpr_spill_count");
  k.shared_bytes = number_in(j, ".group_segment_fixed_size", kMostBytes);
  k.private_bytes = number_in(j, ".private_segment_fixed_size", kMostBytes);
  k.max_threads = count(".max_flat_workgroup_size");
  k.wave = count(".wavefront_size");
  return k;
}

Status read_metadata(Bytes bytes, CodeObject& object) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto json = nlohmann::json::from_msgpack(first, first + bytes.size(), true, false);
  if (json.is_discarded() || !json.is_object()) return unreadable("its metadata is not a map");
  try {
    object.target = json.value("amdhsa.target", std::string());
    for (const auto& kernel : json.at("amdhsa.kernels")) {
      if (!kernel.is_object()) return unreadable("its metadata: a kernel is not a map");
      object.kernels.push_back(kernel_from(kernel));
    }
  } catch (const nlohmann::json::exception& e) {
    return unreadable(fmt::format("its metadata: {}", e.what()));
  }
  return {};
}

}  // namespace

Result<CodeObject> read_code_object(Bytes image) {
  const auto header = at<Elf64_Ehdr>(image, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64)
    return unreadable(fmt::format("{} bytes that are not 64-bit ELF file", image.size()));
  if (header->e_machine != kMachine)
    return unreadable(fmt::format("machine = {}: not AMD's ({})", header->e_machine, kMachine));
  if (header->e_shnum > 0 && header->e_shentsize != sizeof(Elf64_Shdr))
    return unreadable(
        fmt::format("e_shentsize = {}: must be {}", header->e_shentsize, sizeof(Elf64_Shdr)));
  CodeObject object;
  bool found = false;
  for (int i = 0; i < header->e_shnum; ++i) {
    const auto section =
        at<Elf64_Shdr>(image, header->e_shoff + std::uint64_t(i) * header->e_shentsize);
    if (!section) return unreadable(fmt::format("section {} lies outside the file", i));
    const bool code = (section->sh_flags & SHF_EXECINSTR) != 0;
    const bool may_tell = section->sh_type == SHT_NOTE && !found;
    if (!code && !may_tell) continue;
    const auto bytes = part(image, section->sh_offset, section->sh_size);
    if (!bytes) return unreadable(fmt::format("section {} lies outside the file", i));
    if (code) object.code_bytes += static_cast<std::int64_t>(bytes->size());
    if (!may_tell) continue;
    if (const auto metadata = metadata_in(*bytes)) {
      if (auto ok = read_metadata(*metadata, object); !ok) return tl::unexpected(ok.error());
      found = true;
    }
  }
  if (!found) return unreadable("it has no metadata note");
  return object;
}

ResourceReport report_of(const CodeObject& object) {
  ResourceReport report;
  report.code_bytes = object.code_bytes;
  for (const KernelResources& k : object.kernels) {
    report.registers = std::max<std::int64_t>(report.registers, k.vector_registers);
    report.stack_bytes = std::max(report.stack_bytes, k.private_bytes);
    report.shared_bytes = std::max(report.shared_bytes, k.shared_bytes);
    report.spills += k.vector_spills + k.scalar_spills;
  }
  return report;
}

namespace {

// CDNA has four SIMDs in a compute unit, RDNA two.
int simds_of(const DeviceCaps& device) { return device.gpu.wave == 64 ? 4 : 2; }

}  // namespace

int resident_blocks(const KernelResources& kernel, const DeviceCaps& device, int threads) {
  const GpuFeatures& gpu = device.gpu;
  const int wave = std::max(1, gpu.wave);
  const int simds = simds_of(device), grain = wave == 64 ? 8 : 24;  // of registers given out
  const int registers = gpu.registers_unit / (simds * wave);
  const int taken = (std::max(kernel.vector_registers, 1) + grain - 1) / grain * grain;
  const int waves_of_block = (threads + wave - 1) / wave;
  const int most = gpu.threads_unit / (simds * wave);
  const int by_registers = std::min(most, registers / taken);
  int blocks = by_registers * simds / waves_of_block;
  if (kernel.shared_bytes > 0)
    blocks = std::min<std::int64_t>(blocks, gpu.shared_unit_bytes / kernel.shared_bytes);
  return blocks;
}

int occupancy(const KernelResources& kernel, const DeviceCaps& device, int threads) {
  const int wave = std::max(1, device.gpu.wave);
  const int waves = resident_blocks(kernel, device, threads) * ((threads + wave - 1) / wave);
  return waves == 0 ? 0 : std::max(1, waves / simds_of(device));
}

}  // namespace kiln::hip
