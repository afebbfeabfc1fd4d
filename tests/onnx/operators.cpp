#include "tests/onnx/operators.hpp"

#include <map>

namespace gradus::onnx {

Operator find_operator(const std::string& op) {
  static const std::map<std::string, Operator> all = [] {
    std::map<std::string, Operator> table;
    for (const auto entries :
         {elementwise_operators(), reduce_operators(), layout_operators(), indexing_operators(), network_operators(), norm_operators(), window_operators()})
      for (const Entry& entry : entries)
        if (!table.emplace(entry.op, entry.run).second) throw Malformed(cat(entry.op, " is in the table twice"));
    return table;
  }();
  const auto found = all.find(op);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace gradus::onnx
