// Kernels that are stored under a class of CPUs (generator/problem/device_class.h): how their rows
// are named. They were proved on some CPU of the class and measured on none, so their times are the
// analytic model's and their policy is one that no look-up of measured kernels asks for.
#pragma once

#include "cache/record.h"
#include "generator/problem/device_class.h"

namespace kiln {

inline constexpr std::string_view kClassPolicy = "class-v1";

/// The problem as a class names it: D row-major, tight pitches, a packed B of either order, no
/// promise of alignment, and no epilogue, which kernels of classes take as arguments of the call.
Gemm class_problem(const Gemm& gemm);

/// The key of a class's kernels for problems like `gemm`.
BestKey class_key(const DeviceCaps& of_class, const Gemm& gemm);

/// Whether a call on `device` may use kernels of the class for the problem: a packed B lies as the
/// device's best instruction wants it, which may be none of the class's.
bool lies_alike(const Gemm& gemm, const DeviceCaps& device, const DeviceCaps& of_class);

}  // namespace kiln
