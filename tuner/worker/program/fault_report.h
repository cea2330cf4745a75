// The worker's last words: what signal struck where, noted on the page that the parent reads.
#pragma once

#include "tuner/worker/protocol.h"

namespace kiln {

/// Installs handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP that note the fault on
/// `status` and then let the process die of it.
void report_faults_on(WorkerStatus* status);

}  // namespace kiln
