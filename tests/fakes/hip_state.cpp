#include "fakes/hip_state.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

#include "fakes/hip_control.h"

namespace kiln::test {
namespace {

/// Blocks of the checking kernels' grid-stride loops, and how many of them run here.
constexpr unsigned kManyBlocks = 2048, kFewBlocks = 2;

/// Bytes of the ELF file that begins at `image`: its section headers stand last.
std::size_t object_bytes(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  return header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
}

/// The emulated image behind the code object, where the fake compiler put one.
std::vector<std::byte> emulated_behind(const std::byte* end) {
  EmulatedTrailer head;
  std::memcpy(&head, end, sizeof head);
  if (head.magic != EmulatedTrailer::kMagic) return {};
  return {end + sizeof head, end + sizeof head + head.bytes};
}

/// "0,2" as numbers; no variable: none.
std::optional<std::vector<std::size_t>> places_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::vector<std::size_t> places;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) places.push_back(std::stoul(word));
  return places;
}

std::vector<FakeDevice> node_of(const std::vector<FakeDevice>& cards) {
  std::vector<FakeDevice> node, visible;
  const auto named = places_in("KILN_FAKE_HIP_CARDS");
  for (const std::size_t place : named.value_or(std::vector<std::size_t>{})) {
    node.push_back(cards.at(place));
    node.back().bus += static_cast<int>(node.size());
  }
  const auto seen = places_in("ROCR_VISIBLE_DEVICES");
  if (!seen) return node;
  for (const std::size_t place : *seen) visible.push_back(node.at(place));
  return visible;
}

}  // namespace

FakeHip::FakeHip() {
  if (const char* ns = std::getenv("KILN_FAKE_HIP_LAUNCH_NS")) launch_ns = std::stod(ns);
}

FakeHip& FakeHip::get() {
  static FakeHip fake;
  return fake;
}

const std::vector<FakeDevice>& fake_devices() {
  static const std::vector<FakeDevice> cards{
      {"AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 304, 8, std::size_t{192} << 30},
      {"AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 38, 0, std::size_t{24} << 30},
      {"AMD Radeon RX 580", "gfx803", 36, 0, std::size_t{8} << 30}};
  static const std::vector<FakeDevice> here =
      std::getenv("KILN_FAKE_HIP_CARDS") == nullptr ? cards : node_of(cards);
  return here;
}

int FakeHip::live() const {
  return static_cast<int>(memory.size() + modules.size() + streams.size() + events.size() +
                          graphs.size() + graph_execs.size());
}

int FakeHip::wrong(const std::string& sentence, int code) {
  complaints += sentence + '\n';
  return code;
}

bool FakeHip::inside(const void* pointer, std::size_t bytes) const {
  auto* at = static_cast<std::byte*>(const_cast<void*>(pointer));
  auto found = memory.upper_bound(at);
  if (found == memory.begin()) return false;
  --found;
  return at + bytes <= found->first + found->second;
}

FakeStream* FakeHip::stream(void* handle) const {
  const auto found = streams.find(handle);
  return found == streams.end() ? nullptr : found->second.get();
}

int FakeHip::load(const void* image, void** module) {
  const std::size_t bytes = object_bytes(image);
  if (bytes == 0) return kBadImage;
  const auto* first = static_cast<const std::byte*>(image);
  auto object = hip::read_code_object({first, bytes});
  if (!object) return kBadImage;
  if (object->target.find("gfx942") == std::string::npos) return kWrongTarget;
  auto made = std::make_unique<FakeModule>();
  made->object = std::move(*object);
  made->emulated = emulated_behind(first + bytes);
  *module = made.get();
  modules[*module] = std::move(made);
  return kOk;
}

int FakeHip::function(void* module, const char* name, void** function) {
  const auto found = modules.find(module);
  if (found == modules.end()) return wrong("hipModuleGetFunction: unknown module", kBadHandle);
  for (const auto& [handle, known] : functions)
    if (known->module == found->second.get() && known->resources.name == name) {
      *function = handle;
      return kOk;
    }
  for (const hip::KernelResources& kernel : found->second->object.kernels) {
    if (kernel.name != name) continue;
    auto made = std::make_unique<FakeFunction>();
    made->module = found->second.get();
    made->resources = kernel;
    *function = made.get();
    functions[*function] = std::move(made);
    return kOk;
  }
  return kNotFound;
}

int FakeHip::launch(const FakeLaunch& launch, void** parameters) {
  FakeFunction& function = *launch.function;
  spent_ns += launch_ns;
  if (function.module->emulated.empty()) return kOk;
  Dim3 grid = launch.grid;
  // Such loops over everything work with any number of blocks; these are for a real device.
  if (grid.x >= kManyBlocks) grid.x = kFewBlocks;
  auto& kernel = function.by_grid[grid];
  if (!kernel) {
    GpuLaunch description;
    GpuStep step;
    step.entry = function.resources.name;
    step.grid = grid;
    step.block = launch.block;
    description.steps.push_back(step);
    auto made = EmulatedKernel::load(function.module->emulated, description,
                                     hip_caps_named("mi300x").value());
    if (!made) return wrong(made.error().message, kLaunchFailed);
    kernel = std::make_shared<EmulatedKernel>(std::move(*made));
  }
  // The fake compiler's entries take the parameters as the launch has them.
  const auto& opaque = *reinterpret_cast<const KilnGpuArgs*>(parameters);
  const Status ran = kernel->run(opaque, 0);
  return ran ? kOk : wrong(ran.error().message, kLaunchFailed);
}

}  // namespace kiln::test
