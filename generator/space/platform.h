// What all families of one vendor share, as one row of values: how sources are named and compiled,
// what none of its kernels computes, and what the emulator puts in the place of instructions. A new
// vendor is a new row. Knows no device and no compiler; the runtime has a row of its own for those.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/problem/device_caps.h"
#include "generator/space/family.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// How a source becomes one that the host's compiler takes (generator/render/emulated.h).
struct Emulation {
  std::string_view keywords, wrappers;  // templates/emu: before everything, and instead of wrappers
  /// How the names of the templates end that hold instructions, in whose place the wrappers stand.
  std::string_view wrapper_headers;
  /// What else must change in the text; null: nothing.
  std::string (*prepared)(std::string source) = nullptr;
};

struct Platform {
  Vendor vendor;
  std::string_view extension;  // of its sources
  /// Compiles a source by hand: "nvcc {flags} -o kernel.cubin {file}".
  std::string_view command;
  /// What follows the compiler's name; null where that depends on the config (Family::flags).
  std::vector<std::string> (*flags)(const DeviceCaps&) = nullptr;
  /// Why no family of the vendor computes the problem, as a rule's name, or empty. Null: none.
  std::string_view (*refuses)(const Gemm&) = nullptr;
  /// See slow_types() in space.h. Null: none.
  std::string (*slow_types)(const Gemm&, const DeviceCaps&) = nullptr;
  /// Templates of the kernels that check other kernels; none on CPUs.
  std::span<const std::string_view> check_files;
  /// None on CPUs, whose kernels run where they are.
  std::optional<Emulation> emulation;
};

/// The row of a vendor that has one.
const Platform& platform_of(Vendor vendor);
/// The vendor of this name, if it has a row.
std::optional<Vendor> vendor_named(std::string_view name);

/// Adds a vendor and its families; the destructor removes them, the last added first. Tests invent
/// one so. Not while other threads ask for rows.
class AddedPlatform {
 public:
  AddedPlatform(const Platform& platform, std::span<const Family> families);
  ~AddedPlatform();
  AddedPlatform(const AddedPlatform&) = delete;
  AddedPlatform& operator=(const AddedPlatform&) = delete;

 private:
  std::size_t families_;
};

}  // namespace kiln
