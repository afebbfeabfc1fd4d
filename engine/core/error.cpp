#include "engine/core/error.hpp"

namespace gradus {
namespace {

// A full stop unless the sentence has an end of its own.
std::string sentence(const std::string& text) { return text.empty() || text.find_last_of(".?!") == text.size() - 1 ? text : text + "."; }

std::string compose(const std::string& where, const std::string& problem, const std::string& hint) {
  return "[" + where + "] " + sentence(problem) + (hint.empty() ? "" : " Hint: " + sentence(hint));
}

}  // namespace

Error::Error(std::string where, std::string problem, std::string hint)
    : std::runtime_error(compose(where, problem, hint)), where_(std::move(where)), problem_(std::move(problem)), hint_(std::move(hint)) {}

}  // namespace gradus
