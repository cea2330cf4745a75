// How a GPU kernel is to be launched, as a plain description: worked out from (problem, device,
// config) alone, so that it can be tested, printed and stored without a GPU. Knows no driver; the
// runtime fills in the pointers of a call.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  auto operator<=>(const Dim3&) const = default;
  std::int64_t count() const { return std::int64_t{x} * y * z; }
};

/// Whose memory a tensor map describes. `workspace` is for operands that a step has repacked.
/// From `extra` on: the expression's operands. Launches are stored by these numbers: new ones come
/// before `extra`, which stays last.
enum class MapOperand : std::uint8_t { a, b, d, workspace, scale_a, scale_b, residual, extra };

/// Element types of the copy engine; `tf32` rounds fp32 to tf32 on the way.
enum class MapElement : std::uint8_t { u8, u16, u32, s32, f16, bf16, f32, f64, tf32 };
constexpr int bytes_of(MapElement e) {
  switch (e) {
    case MapElement::u8:
      return 1;
    case MapElement::u16:
    case MapElement::f16:
    case MapElement::bf16:
      return 2;
    case MapElement::f64:
      return 8;
    default:
      return 4;
  }
}

/// Bytes after which the pattern of 16-byte exchanges repeats.
enum class MapSwizzle : std::uint8_t { none, b32, b64, b128 };

enum class MapPromotion : std::uint8_t { none, b64, b128, b256 };

/// One tensor map. dims[0] runs along neighbouring elements; strides[i] is the bytes between steps
/// of dims[i + 1], a multiple of 16. Elements outside read as zero and are not written.
struct TensorMapSpec {
  static constexpr int kMaxRank = 5;
  MapOperand operand = MapOperand::a;
  std::int64_t offset = 0;  // bytes from the operand's start to the map's first element
  MapElement element = MapElement::bf16;
  int rank = 2;
  std::array<std::uint64_t, kMaxRank> dims{};
  std::array<std::uint64_t, kMaxRank - 1> strides{};
  std::array<std::uint32_t, kMaxRank> box{};
  MapSwizzle swizzle = MapSwizzle::b128;
  MapPromotion promotion = MapPromotion::b128;
  auto operator<=>(const TensorMapSpec&) const = default;
};

/// Bytes of a list's entries that one launch is given: its parameters end at 4 KB.
inline constexpr std::int64_t kBytesOfChunk = 3328;
/// Of an entry without scales.
inline constexpr std::int64_t kPlainEntryBytes = 104;

/// One launch. Its parameters are the KilnGpuArgs, then the maps that `maps` names, in that order,
/// then entries of a list.
struct GpuStep {
  std::string entry = "kiln_gemm";  // an extern "C" name in the module
  Dim3 grid, block;
  Dim3 cluster;  // {1,1,1}: no cluster attribute
  int dynamic_shared_bytes = 0;
  /// The step may begin while the one before it in the stream drains
  /// (programmatic stream serialisation): its kernel must wait by griddepcontrol.wait.
  bool overlaps_previous = false;
  std::vector<int> maps;  // indices into GpuLaunch::maps
  /// Of a list's entries the first one that the step is given by value, with the next ones up to
  /// entries_of_chunk() in all; negative: it is given none.
  std::int64_t first_entry = -1;
  auto operator<=>(const GpuStep&) const = default;
};

/// Of how many neighbours of a row of D, and of a column, kernels make one of the values that an
/// expression reduces.
struct Together {
  int of_row = 1, of_column = 1;
};

/// Values that are reduced, or kept for what is made of that: elements between lines and between
/// batches.
struct ValuesAt {
  std::int64_t at = -1;  // bytes from the workspace's start; negative: there are none
  std::int64_t ld = 0, stride = 0;
  /// Where they are reduced to, if the caller has no memory for it.
  std::int64_t line_at = -1, line_stride = 0;
  auto operator<=>(const ValuesAt&) const = default;
};

/// Everything that one call does, in stream order. No steps: nothing to do (an empty D).
struct GpuLaunch {
  std::vector<GpuStep> steps;
  std::vector<TensorMapSpec> maps;
  std::int64_t workspace_bytes = 0;
  /// The first bytes of the workspace that must be zero before the first call; kernels leave them
  /// zero again. Calls that may overlap in time must not share a workspace.
  std::int64_t zeroed_bytes = 0;
  /// Where in the workspace D is for all steps, whose last one adds its rows to those of the call's
  /// D; 0: steps write that.
  std::int64_t product_at = 0;
  /// Of each output of an expression the values in the workspace that the last steps reduce.
  std::array<ValuesAt, 4> values{};
  /// Of the outputs that one in whose place D is for all steps, and in D's place the output: D is
  /// in the workspace, and the last step stores the caller's. Negative: none.
  int in_place_of_d = -1;
  /// Whether steps write to the workspace what the caller has memory for.
  bool redirects() const {
    return product_at != 0 ||
           std::ranges::any_of(values, [](const ValuesAt& of) { return of.at >= 0; });
  }
  /// Of `maps` the first so many are made anew for each entry of a list, with its addresses, sizes
  /// and pitches, by the steps that are given entries: they lie in the workspace, behind all
  /// entries.
  int entry_maps = 0;
  /// Of each of a list's entries that steps are given, as many bytes as kernels know.
  std::int64_t entry_bytes = kPlainEntryBytes;
  /// How many entries a step is given.
  std::int64_t entries_of_chunk() const { return kBytesOfChunk / entry_bytes; }
  auto operator<=>(const GpuLaunch&) const = default;
};

}  // namespace kiln
