// Classes of CPUs by what their instructions are. A kernel that was made and proved for a class is
// stored under the class and serves every CPU that has its instructions, whatever its model, caches
// and number of cores. And GPUs that run each other's kernels. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "generator/problem/device_caps.h"

namespace kiln {

/// The most threads of a call that kernels of a class serve.
inline constexpr int kMostClassThreads = 1024;

/// Whether a CPU has all instructions of `wanted`.
bool covers(const CpuFeatures& device, const CpuFeatures& wanted);

/// The device under which kernels of a class are stored: the CPU that is known by this name, with
/// kMostClassThreads. Errors: bad_input (no CPU is known by it).
Result<DeviceCaps> device_class(std::string_view name);

/// The name of the class that `device` is; empty: it is a device.
std::string_view class_name(const DeviceCaps& device);

/// Every class whose instructions the CPU has, most instructions first. None of a GPU.
std::vector<DeviceCaps> classes_of(const DeviceCaps& device);

/// The CPU with the instructions of one of its classes and no others. Its threads, caches and clock
/// are its own: they decide how kernels rank, never what they compute.
DeviceCaps limited_to_class(DeviceCaps device, const DeviceCaps& of_class);

/// Whether two GPUs are of one target with the same units and the same limits of each: code made
/// for one is the other's, and so are most launches. Their names, memory, caches and clocks may
/// differ, which decide how kernels rank.
bool are_relatives(const DeviceCaps& x, const DeviceCaps& y);

}  // namespace kiln
