// kiln's errors as Python's exceptions (kiln/errors.py). Knows nothing else of kiln.
#pragma once

#include <string>

#include "kiln/error.hpp"

namespace kiln::python {

/// Throws the exception of this error's kind, to be caught by pybind11 or raised by `guarded`.
[[noreturn]] void raise_error(const Error& error);
[[noreturn]] void raise_bad_input(std::string message);
[[noreturn]] void raise_type_error(const std::string& message);

/// The value, or the exception.
template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) raise_error(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace kiln::python
