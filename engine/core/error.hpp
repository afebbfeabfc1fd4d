#pragma once
// Every failure a caller can cause is one exception with three parts: what was asked, what was got, what to do.

#include <sstream>
#include <stdexcept>
#include <string>

namespace gradus {

/// Concatenates its arguments as text; used to build error messages.
template <class... Args>
[[nodiscard]] std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

/// Base of all errors. `what()` reads "[where] problem. Hint: hint."
class Error : public std::runtime_error {
 public:
  Error(std::string where, std::string problem, std::string hint = "");
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

 private:
  std::string where_, problem_, hint_;
};

/// Shapes that do not fit an operation, or sizes that overflow.
struct ShapeError : Error {
  using Error::Error;
};
/// An index, axis or slice outside its range.
struct IndexError : Error {
  using Error::Error;
};
/// A dtype an operation does not take, or two dtypes mixed.
struct DTypeError : Error {
  using Error::Error;
};
/// A number outside its domain (a temperature of 0, a negative count).
struct ValueError : Error {
  using Error::Error;
};
/// Misuse of a tape: stale handles, mixed tapes, changed saved values, missing gradients.
struct GraphError : Error {
  using Error::Error;
};
/// Files that cannot be read, parsed or written.
struct IoError : Error {
  using Error::Error;
};

}  // namespace gradus
