#pragma once
// Pieces of work that bench/compare times beside the same work of other libraries. A piece is named by words: what is done, then
// its sizes, as in "gemm f32 512 512 512 0 0 1".

#include <string>
#include <vector>

#include "bench/runner/timing.hpp"
#include "engine/tensor/tensor.hpp"

namespace gradus::bench {

/// The words of a piece of work after its name; a missing or malformed one is a ValueError.
class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {}
  [[nodiscard]] const std::string& text(std::size_t i) const;
  [[nodiscard]] index_t number(std::size_t i) const;

 private:
  std::vector<std::string> words_;
};

/// A kind of work by the first word of its name.
struct Kind {
  const char* name;
  const char* words;  ///< what follows
  Work (*make)(const Words& words);
};

[[nodiscard]] std::vector<Kind> gemm_kinds();
[[nodiscard]] std::vector<Kind> op_kinds();
[[nodiscard]] std::vector<Kind> attention_kinds();
[[nodiscard]] std::vector<Kind> step_kinds();
[[nodiscard]] std::vector<Kind> kmeans_kinds();

}  // namespace gradus::bench
