// Errors as values: a function that can fail returns Result<T>; the C API turns the Error into a status and a
// message.
#pragma once
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "runnel/runnel.h"

namespace runnel {

struct Error {
  runnel_status status;
  std::string message;  // names what it is about, what was expected and what was found
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
inline Error
error(runnel_status status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const int n_chars = std::vsnprintf(nullptr, 0, format, args);
  va_end(args);
  // Whole: a long path comes first and may not push out what was expected and found.
  std::string message(n_chars > 0 ? static_cast<std::size_t>(n_chars) : 0, '\0');
  va_start(args, format);
  std::vsnprintf(message.data(), message.size() + 1, format, args);
  va_end(args);
  return {status, std::move(message)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return *std::get_if<0>(&state_); }
  const T& operator*() const { return *std::get_if<0>(&state_); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  Error& error() { return *std::get_if<1>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return !error_; }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// Returns the error of a failed expression from the enclosing function.
#define RUNNEL_TRY(expression)                                                                \
  do {                                                                                        \
    if (auto runnel_try_ = (expression); !runnel_try_) return std::move(runnel_try_.error()); \
  } while (0)

// RUNNEL_ASSIGN(auto x, f()): declares or assigns the value, or returns the error.
#define RUNNEL_CAT2(a, b) a##b
#define RUNNEL_CAT(a, b) RUNNEL_CAT2(a, b)
#define RUNNEL_ASSIGN(target, expression) \
  RUNNEL_ASSIGN_(RUNNEL_CAT(runnel_result_, __LINE__), target, expression)
#define RUNNEL_ASSIGN_(result, target, expression) \
  auto result = (expression);                      \
  if (!result) return std::move(result.error());   \
  target = std::move(*result)

}  // namespace runnel
