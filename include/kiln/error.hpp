/// @file
/// Errors are values: a code, and a sentence that names the field and the value.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace kiln {

/// Kind of an error.
enum class ErrorCode {
  bad_input,     ///< a field of the call or of a file is wrong; the message names it and its value
  unsupported,   ///< well-formed, but no family of kernels covers it
  device,        ///< the device, its driver or the machine refused
  compiler,      ///< a source did not compile, or no compiler could be loaded
  database,      ///< the database could not be opened, read or written
  not_tuned,     ///< Policy::error and no exact record
  verification,  ///< a result was wrong
  internal,      ///< a defect of kiln's
};

/// The code in words, as "bad input".
constexpr std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_input:
      return "bad input";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::device:
      return "device";
    case ErrorCode::compiler:
      return "compiler";
    case ErrorCode::database:
      return "database";
    case ErrorCode::not_tuned:
      return "not tuned";
    case ErrorCode::verification:
      return "verification";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

/// Why a call failed.
struct Error {
  ErrorCode code = ErrorCode::internal;  ///< kind
  std::string message;                   ///< one sentence with the field and its value
};

/// A value, or why there is none.
template <typename T>
using Result = tl::expected<T, Error>;
/// Nothing, or why the call failed.
using Status = Result<void>;

/// An Error, ready to be returned.
inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace kiln
