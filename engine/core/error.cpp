#include "engine/core/error.hpp"

namespace gradus {
namespace {

std::string compose(const std::string& where, const std::string& problem, const std::string& hint) {
  std::string message = "[" + where + "] " + problem;
  if (!problem.empty() && problem.back() != '.') message += '.';
  if (!hint.empty()) message += " Hint: " + hint;
  if (!hint.empty() && hint.back() != '.') message += '.';
  return message;
}

}  // namespace

Error::Error(std::string where, std::string problem, std::string hint)
    : std::runtime_error(compose(where, problem, hint)), where_(std::move(where)), problem_(std::move(problem)), hint_(std::move(hint)) {}

}  // namespace gradus
