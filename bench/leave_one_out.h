// `kiln bench --leave-one-out`: how good the choice among stored kernels is for shapes that were
// never measured, from what databases hold. Runs nothing on a device.
#pragma once

#include <string>
#include <vector>

#include "bench/report.h"
#include "cache/store.h"
#include "tuner/search/fitted_model.h"

namespace kiln {

/// Problems of the same types, layouts and epilogue on one device.
struct LeaveOneOutRow {
  std::string device;    // its model and, of a CPU, the threads
  std::string problems;  // one of them, as text, with sizes left out
  int kernels = 0;       // that were stored
  bool used = false;     // the fitted model is good enough to be used
  ChoiceQuality fitted, analytic;
  double spread = 0;  // of the fitted model's errors
  std::vector<LeftOutShape> shapes;
};

/// Every class of problems with at least two kernels measured on two shapes. Errors: database.
Result<std::vector<LeaveOneOutRow>> leave_one_out(Store& store);

std::string table(const std::vector<LeaveOneOutRow>& rows);
OrderedJson to_json(const LeaveOneOutRow& row);
/// {"summary": ...}: over all shapes, by the model that gemm() uses.
OrderedJson summary_json(const std::vector<LeaveOneOutRow>& rows);
/// Best measured time over the chosen kernel's, by the work of a shape: one panel a device.
std::string svg(const std::vector<LeaveOneOutRow>& rows);

}  // namespace kiln
