// A compile in this process that may be left behind: libraries that compile cannot be stopped.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/compiler.h"

namespace kiln {

/// compiler.compile(source), on a thread that goes on alone where `stop` is requested before it is
/// done: the compiler must live as long as the process. Errors: as compile(), and compiler then.
inline Result<Binary> compile_or_leave(Compiler& compiler, const std::stop_token& stop,
                                       const Source& source) {
  if (!stop.stop_possible()) return compiler.compile(source);
  std::promise<Result<Binary>> promise;
  auto made = promise.get_future();
  try {
    std::thread([&compiler, source, promise = std::move(promise)]() mutable {
      promise.set_value(compiler.compile(source));
    }).detach();
  } catch (const std::system_error&) {  // no thread to be had
    return compiler.compile(source);
  }
  constexpr std::chrono::milliseconds kAsked{20};
  while (made.wait_for(kAsked) != std::future_status::ready)
    if (stop.stop_requested()) return fail(ErrorCode::compiler, source.file_name + ": stopped");
  return made.get();
}

}  // namespace kiln
