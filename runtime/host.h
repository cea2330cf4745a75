// What the program lends (kiln/host.hpp), for those who use it.
#pragma once

#include "kiln/host.hpp"

namespace kiln {

/// Null: nothing is lent now. What was found stays valid until the process ends.
const HostThreads* lent_threads();
const HostMemory* lent_memory();

}  // namespace kiln
