// Which kernels a class of CPUs needs so that every valid problem has one: a rule over types and
// layouts, no search. Pure.
#pragma once

#include <vector>

#include "generator/problem/device_class.h"
#include "generator/space/config.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// One kernel of the list: a problem that it serves, and its config. Problems of one kind (types
/// and layouts) differ in k alone, by which their kernels are told apart.
struct ClassKernel {
  Gemm gemm;
  Config config;
};

/// Every kind of problem that CPU families compute, once: types, layouts of A and B, a packed B.
std::vector<Gemm> kinds_of_problems();

/// Whether the class has a better instruction for the problem than all classes within it: where it
/// has none, their kernels are as good.
bool has_own_instruction(const Gemm& gemm, const DeviceCaps& of_class);

/// The kernels of a class: for each kind of problem for which it has an instruction of its own, a
/// few register tiles, with and without packing, that take any epilogue, each for one thread, for
/// threads that share a product, and for threads that share a batch: one binary.
std::vector<ClassKernel> class_list(const DeviceCaps& of_class);

}  // namespace kiln
