// Calls into functions that the caller gave.
#pragma once

#include <cxxabi.h>
#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string_view>

namespace kiln {

/// What a callback of the caller's threw, in a sentence that names the callback.
struct CallbackThrew : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Calls a caller's function. What it throws becomes CallbackThrew, which names the function.
template <typename F, typename... Args>
auto called(std::string_view name, const F& callback, const Args&... args) {
  try {
    return callback(args...);
  } catch (const abi::__forced_unwind&) {  // pthread_exit()
    throw;
  } catch (const std::exception& e) {
    throw CallbackThrew(fmt::format("{}: threw: {}", name, e.what()));
  } catch (...) {
    throw CallbackThrew(fmt::format("{}: threw something that is not a std::exception", name));
  }
}

}  // namespace kiln
