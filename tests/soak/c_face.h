// Problems and operands as the C functions take them.
#pragma once

#include "kiln/engine.hpp"
#include "kiln/kiln.h"

namespace kiln::soak {

kiln_gemm_desc c_desc(const Gemm& gemm);
/// The packed B of a call is given apart: the two faces have a type each.
kiln_operands c_operands(const Operands& operands, const kiln_packed_b* packed = nullptr);

/// A C call's outcome as the C++ face gives it.
Status status_of(kiln_status status);

}  // namespace kiln::soak
