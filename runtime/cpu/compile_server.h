// The compiler in a process of its own: what it does wrong (crashes, memory that runs out, signal
// handlers that it exchanges) costs the compile, not the program. One server does all compiles of a
// process, each on a thread, and ends when nothing was asked of it for a while.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/compiler.h"

namespace kiln {

/// A server that `worker` (kiln-worker) is, with the first of `paths` that is a compiler. Errors:
/// compiler (none of them is); device (the server could not be started).
Result<std::unique_ptr<Compiler>> open_compile_server(const std::filesystem::path& worker,
                                                      const std::vector<std::string>& paths);

/// How many this process, and those that it was forked from, have started: none where all kernels
/// come out of a database.
int compile_servers_started();

/// The argument by which kiln-worker becomes one, with the descriptor that its client talks over.
inline constexpr const char* kCompileServerArgument = "compile";
inline constexpr int kCompileServerFd = 3;
/// The server. Returns when its client is gone or silent.
void serve_compiles();

}  // namespace kiln
