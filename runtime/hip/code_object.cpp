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

KernelResources kernel_from(const nlohmann::json& j) {
  const auto number = [&](const char* key) { return j.value(key, std::int64_t{0}); };
  KernelResources k;
  k.name = j.value(".name", std::string());
  k.vector_registers = static_cast<int>(number(".vgpr_count"));
  k.accumulation_registers = static_cast<int>(number(".agpr_count"));
  k.scalar_registers = static_cast<int>(number(".sgpr_count"));
  k.vector_spills = static_cast<int>(number(".vgpr_spill_count"));
  k.scalar_spills = static_cast<int>(number(".sgpr_spill_count"));
  k.shared_bytes = number(".group_segment_fixed_size");
  k.private_bytes = number(".private_segment_fixed_size");
  k.max_threads = static_cast<int>(number(".max_flat_workgroup_size"));
  k.wave = static_cast<int>(number(".wavefront_size"));
  return k;
}

Status read_metadata(Bytes bytes, CodeObject& object) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto json = nlohmann::json::from_msgpack(first, first + bytes.size(), true, false);
  if (json.is_discarded() || !json.is_object()) return unreadable("its metadata is no map");
  try {
    object.target = json.value("amdhsa.target", std::string());
    for (const auto& kernel : json.at("amdhsa.kernels"))
      object.kernels.push_back(kernel_from(kernel));
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
    return unreadable(fmt::format("{} bytes that are no 64-bit ELF file", image.size()));
  if (header->e_machine != kMachine)
    return unreadable(fmt::format("machine = {}: not AMD's ({})", header->e_machine, kMachine));
  CodeObject object;
  bool found = false;
  for (int i = 0; i < header->e_shnum; ++i) {
    const auto section =
        at<Elf64_Shdr>(image, header->e_shoff + std::uint64_t(i) * header->e_shentsize);
    if (!section) return unreadable(fmt::format("section {} lies outside the file", i));
    if ((section->sh_flags & SHF_EXECINSTR) != 0)
      object.code_bytes += static_cast<std::int64_t>(section->sh_size);
    if (section->sh_type != SHT_NOTE) continue;
    const auto notes = part(image, section->sh_offset, section->sh_size);
    if (!notes) return unreadable(fmt::format("section {} lies outside the file", i));
    if (const auto metadata = metadata_in(*notes)) {
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
