// In which order kernels sum the products of an element of D, and which order is that of
// Determinism::batch_invariant. Pure; knows no database.
#pragma once

#include <optional>
#include <string>

#include "generator/problem/device_caps.h"
#include "generator/problem/problem.h"
#include "generator/space/config.h"
#include "kiln/options.hpp"

namespace kiln {

/// The order in which the kernel of a config, which breaks no rule, sums the products of an element
/// and what it rounds on the way: "vfmadd231ps chain kc=256". Two configs of one device with equal
/// texts, of whatever families, give the same bits for the same rows and columns, wherever these
/// stand and however many others there are; up to what a NaN carries, and the sign of a zero whose
/// products all underflowed. Integers: "exact", whatever the order. Where an expression reduces,
/// " reduced=32x16" behind it: of how many neighbours of a row and of a column values are made.
/// Empty: the order depends on sizes other than k, or on the place of the element, or is not known.
std::string summation(const Problem& problem, const DeviceCaps& device, const Config& config);

/// The order of all kernels of Determinism::batch_invariant for a problem: that of the plain config
/// of the vendor's first family that has one (Family::plain). It follows from the types, layouts,
/// n, k, batch, epilogue and scales, the device and its number of threads; m, pitches and alignment
/// have no part in it. Empty: no family computes the problem, or none says its order.
std::string invariant_summation(const Gemm& gemm, const DeviceCaps& device);

/// The configs that a class of determinism allows for one problem. Costs nothing in the classes
/// that allow every order.
class AllowedSummation {
 public:
  AllowedSummation(const Problem& problem, const DeviceCaps& device, Determinism determinism);
  /// Of a config that breaks no rule.
  bool allows(const Config& config) const;
  /// The one order that is allowed; empty: every order is, or none.
  std::string order() const { return one_ ? one_->order : std::string(); }

 private:
  struct One {
    Problem problem;
    DeviceCaps device;
    std::string order;
  };
  std::optional<One> one_;  // none: every order is allowed
};

}  // namespace kiln
