// Tensor maps: what copies go by, and how a kernel makes one: fields are replaced in shared memory,
// a warp copies it to memory, and each lane that copies by it acquires it there.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/emulator/instructions.h"

namespace kiln::emu {
namespace {

Machine& here() { return *Machine::current(); }

void tensor_map_set(unsigned address, KilnEmuMapField field, int dimension,
                    unsigned long long value) {
  Machine& m = here();
  m.pause();
  if (address % 128 != 0)
    m.refuse(fmt::format("tensormap.replace at {:#x}: not 128-byte aligned", address));
  m.show_stores(m.lane());
  unsigned char* at = shared_at(m, address, sizeof(EmulatedMap), "tensormap.replace");
  EmulatedMap map;
  std::memcpy(&map, at, sizeof(map));
  if (map.magic != EmulatedMap::kMagic) m.refuse("tensormap.replace of what is not a tensor map");
  const auto refuse_value = [&] {
    m.refuse(fmt::format("tensormap.replace of field {} by {}", static_cast<int>(field), value));
  };
  const auto i = static_cast<std::size_t>(dimension);
  std::size_t place = 0;
  switch (field) {
    case kKilnEmuMapAddress:
      if (value % 16 != 0) refuse_value();
      place = offsetof(EmulatedMap, base);
      break;
    case kKilnEmuMapElements:
      if (value == 0 || dimension >= map.spec->rank) refuse_value();
      place = offsetof(EmulatedMap, dims) + i * sizeof(map.dims[0]);
      break;
    case kKilnEmuMapStride:
      if (value % 16 != 0 || value >= 1ULL << 40 || dimension + 1 >= map.spec->rank) refuse_value();
      place = offsetof(EmulatedMap, strides) + i * sizeof(map.strides[0]);
      break;
  }
  m.store(m.lane(), at + place, &value, sizeof(value));
}

void tensor_map_release(void* to, unsigned address) {
  Machine& m = here();
  m.pause();
  m.check_previous_grid();
  m.show_stores(m.lane());
  if (!m.gather("tensormap.cp_fenceproxy", nullptr)) return;
  if (reinterpret_cast<std::uintptr_t>(to) % 128 != 0)
    m.refuse(fmt::format("tensormap.cp_fenceproxy to {}: not 128-byte aligned", to));
  EmulatedMap map;
  std::memcpy(&map, shared_at(m, address, sizeof(map), "tensormap.cp_fenceproxy"), sizeof(map));
  if (map.magic != EmulatedMap::kMagic)
    m.refuse("tensormap.cp_fenceproxy of what is not a tensor map");
  map.magic = EmulatedMap::kMade;
  std::memcpy(to, &map, sizeof(map));
  m.finish(*m.lane().warp);
}

void tensor_map_acquire(const void* map) {
  Machine& m = here();
  m.pause();
  m.check_previous_grid();
  auto& acquired = m.lane().acquired_maps;
  if (std::find(acquired.begin(), acquired.end(), map) == acquired.end()) acquired.push_back(map);
}

}  // namespace

EmulatedMap map_at(Machine& m, const void* at) {
  EmulatedMap map;
  std::memcpy(&map, at, sizeof(map));
  if (map.magic == EmulatedMap::kMagic) return map;
  if (map.magic != EmulatedMap::kMade) m.refuse("a copy whose descriptor is not a tensor map");
  const auto& acquired = m.lane().acquired_maps;
  if (std::find(acquired.begin(), acquired.end(), at) == acquired.end())
    m.refuse("a copy by a tensor map that a kernel has made and the lane has not acquired");
  return map;
}

void add_tensor_maps(KilnEmuOps& to) {
  to.tensor_map_set = tensor_map_set;
  to.tensor_map_release = tensor_map_release;
  to.tensor_map_acquire = tensor_map_acquire;
}

}  // namespace kiln::emu
