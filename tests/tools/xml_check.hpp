#pragma once
// A strict check that text is well-formed XML, as far as the pictures and pages use it: elements, attributes, text, entities.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradus::testing {

/// One parsed element.
struct XmlElement {
  std::string tag;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  // of the element itself, entities resolved
  std::vector<XmlElement> children;

  /// The value of an attribute, or "".
  [[nodiscard]] std::string attribute(std::string_view name) const {
    for (const auto& [key, value] : attributes)
      if (key == name) return value;
    return "";
  }
  /// All elements of a tag below this one, in document order.
  [[nodiscard]] std::vector<const XmlElement*> all(std::string_view wanted) const {
    std::vector<const XmlElement*> found;
    for (const XmlElement& child : children) {
      if (child.tag == wanted) found.push_back(&child);
      for (const XmlElement* below : child.all(wanted)) found.push_back(below);
    }
    return found;
  }
};

/// Parses one document; throws a description of the first fault. A <!DOCTYPE html> line is allowed.
[[nodiscard]] XmlElement parse_xml(std::string_view text);

}  // namespace gradus::testing
