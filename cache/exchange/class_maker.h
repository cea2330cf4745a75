// Makes the kernels of a class of CPUs: compiles, proves and stores what a list names. What a file
// has already is left as it is, so a run that was interrupted continues. Knows no command line.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cache/store.h"
#include "runtime/compiler.h"
#include "tuner/search/class_list.h"

namespace kiln {

struct ClassMaking {
  int jobs = 0;  // at a time; 0 = as many as the machine has cores
  std::function<void(int done, int total)> progress = {};  // by one thread at a time
  std::function<bool()> cancelled = {};
};

struct ClassReport {
  int kinds = 0;      // of problems that the list serves
  int made = 0;       // compiled, proved and stored now
  int there = 0;      // in the database already, with their proof
  int same_code = 0;  // another kernel of the same kind is the same code under the same launch
  /// One sentence for each kernel that did not come through: its config, problem and reason.
  std::vector<std::string> failed;
};

/// Errors: database, device (no worker). `of_class` is a class whose code runs on this machine.
Result<ClassReport> make_class(Store& store, Compiler& compiler, const DeviceCaps& of_class,
                               std::span<const ClassKernel> list, const ClassMaking& how);

}  // namespace kiln
