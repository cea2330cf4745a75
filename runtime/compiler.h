// Source text in, machine code out. Knows nothing of problems, tuning or databases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "generator/render/render.h"
#include "kiln/error.hpp"

namespace kiln {

/// What the compiler said the code needs. On the CPU: bytes of code, bytes of the largest
/// function's stack frame, and the spills (registers stored to the stack and fetched again) of all
/// functions. On a GPU: what the most demanding entry takes of registers, stack and static shared
/// memory, and the bytes that all entries spill.
struct ResourceReport {
  std::int64_t code_bytes = 0;
  std::int64_t stack_bytes = 0;
  std::int64_t registers = 0;
  std::int64_t spills = 0;
  std::int64_t shared_bytes = 0;
};

/// Linked code, ready to load: an ELF shared object on the CPU, cubin or hsaco on a GPU.
struct Binary {
  std::vector<std::byte> image;
  ResourceReport resources;
  std::string log;
};

/// Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Errors: compiler, with the diagnostics.
  virtual Result<Binary> compile(const Source& source) = 0;
  /// The same, but where `stop` is requested before it is done and the compiler can be left behind,
  /// it returns at once. Errors: compiler, then too.
  virtual Result<Binary> compile_unless(const std::stop_token& stop, const Source& source) {
    static_cast<void>(stop);
    return compile(source);
  }
  /// The same, as assembly text.
  virtual Result<std::string> assembly(const Source& source) = 0;
  /// "clang 22.1.8 …": part of every binary's key and every record's validators.
  virtual std::string version() const = 0;
};

/// Clang, from its own shared object, in a process of its own (cpu/compile_server.h); in this one
/// where kiln-worker is not installed. Opened on the first call and kept.
/// Errors: compiler (no such object, or it could not be loaded), naming the paths tried; device.
Result<Compiler*> host_compiler();

/// What makes code for `device`: the in-process Clang, or NVRTC. Errors: compiler.
Result<Compiler*> compiler_for(const DeviceCaps& device);

/// Error of a compile when the process is ending (exit_gate.h).
tl::unexpected<Error> not_at_exit(const Source& source);

/// What machine code is known by: hash of generator/render/code_key.h's key and the compiler's
/// version, since another compiler makes other machine code of the same tokens.
std::string binary_key(const Source& source, std::string_view compiler_version);
std::string binary_key(std::string_view code_key, std::string_view compiler_version);

}  // namespace kiln
