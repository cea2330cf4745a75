// A problem bound to its kernel, and what is checked of a call's operands before it runs. The warm
// path lives here: no lock, no allocation, no I/O. Knows no database.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/call_recorder.h"
#include "engine/gpu_plan.h"
#include "engine/vendor.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/problem.h"
#include "kiln/engine.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/packed_b.h"

namespace kiln {

/// Every field of a Gemm and the thread count, without padding: what the plan table compares.
struct PlanKey {
  static constexpr std::size_t kWords = (kGemmFieldBytes + kUnsaid.size() + sizeof(int) + 7) / 8;
  std::uint64_t words[kWords] = {};
  bool operator==(const PlanKey&) const = default;
};
PlanKey plan_key(const Gemm& gemm, int threads);
std::uint64_t hash_of(const PlanKey& key);

/// What one operand of a call must be.
struct OperandRule {
  std::uintptr_t bytes = 0;  // from its first to one past its last; 0 = not read
  std::uintptr_t bits = 0;   // of its address that must be 0
};
/// What a call's operands must be, worked out once for a problem.
struct OperandRules {
  std::array<OperandRule, kOperandCount> each;
  bool empty = false;            // m or n is 0
  bool takes_c = true;           // a gated problem has none
  bool c_may_be_d = false;       // C and D lie alike, so they may be the same
  bool writes_beside_d = false;  // some of kBesideD are written
  const OperandRule& operator[](Operand which) const { return each[index_of(which)]; }
};

}  // namespace kiln

struct KILN_LOCAL kiln::Plan::Impl : std::enable_shared_from_this<kiln::Plan::Impl> {
  explicit Impl(const Problem& problem) : gemm(problem.given), problem(problem) {}

  Gemm gemm;  // as the caller wrote it
  int threads = 1;
  PlanKey key;
  std::uint64_t hash = 0;
  Problem problem;
  OperandRules rules;
  PackedLayout packed_layout;  // of a packed B
  Match match = Match::reference;
  std::string config;               // canonical text; "reference" for the kernel of last resort
  std::string reason;               // why this one: a sentence for explain()
  std::vector<RacedLibrary> raced;  // beside this kernel, where it was tuned for this problem
  std::string made_for;  // the class of CPUs whose kernel it is; empty: made for this device
  std::shared_ptr<const HostKernel> kernel;  // null: on a GPU, or the kernel of last resort
  std::unique_ptr<const GpuPlan> gpu;
  gpu::SharedDevice empty_on;  // the GPU of a problem without elements of D
  HostArgs args = {};          // of every call, but for operands, alpha and beta
  int used_threads = 1;        // of `threads`, those that the kernel has work for
  std::int64_t workspace_bytes = 0;
  // One thread, no workspace, not recorded: gemm() calls the code directly.
  bool bare_call = false;
  KilnDirectFn direct_call = nullptr;  // the code's own entry where it has one; A, B, C, D alone
  std::shared_ptr<CallRecorder> recorder;  // null: its calls are not recorded
  CallCounter* counter = nullptr;          // the recorder's
  double expected_ns = 0;                  // of a call on a GPU, where it is recorded; 0 = unknown
  // Set once, before others see the plan: it lives as long as its engine. Another one, made when
  // the table was full, ends with its last owner.
  mutable bool in_table = false;
};

struct KILN_LOCAL kiln::PackedB::Impl {
  Gemm gemm;  // of any m
  PackedLayout layout;
  PackedCopy copy;
};

namespace kiln {

/// 64-byte aligned memory; null when there is none.
std::shared_ptr<std::byte[]> aligned_bytes(std::int64_t bytes);

/// A plan without a kernel yet: keys, canonical form and rules. `gemm` is valid.
std::shared_ptr<Plan::Impl> bare_plan(const Gemm& gemm, int threads, const DeviceCaps& device = {});
/// Gives it code and asks that for its workspace.
void bind_kernel(Plan::Impl& plan, std::shared_ptr<const HostKernel> kernel,
                 const KilnDivision& division);

/// Code on its device: one of the two is set.
struct KernelCode {
  std::shared_ptr<const HostKernel> host;
  gpu::SharedModule gpu;
  explicit operator bool() const { return host != nullptr || gpu != nullptr; }
};

/// packed.cpp: whether the plan's kernel may read it; m, threads and everything but B may
/// differ. Errors: bad_input (what differs, and both values).
Status check_packed(const PackedB::Impl& packed, const Plan::Impl& plan);
/// Errors: bad_input (a null, misaligned or overlapping operand, by name and address).
Status check_operands(const Plan::Impl& plan, const Operands& operands, const void* b);
/// Checks, then runs. `operands.packed_b` is followed. Errors: those, and device (no memory).
Status run_plan(const Plan::Impl& plan, const Operands& operands);

}  // namespace kiln
