#pragma once
// The header of a safetensors file: which bytes are which tensor.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/elements.hpp"

namespace gradus::io {

struct SafeTensorsEntry {
  std::string name;
  Element element;
  Shape shape;
  std::size_t begin = 0, end = 0;  ///< bytes behind the header
};

struct SafeTensorsHeader {
  std::vector<SafeTensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// The key under which a header keeps its metadata; no tensor can have this name.
inline constexpr std::string_view metadata_key = "__metadata__";

/// Parses the JSON text of a header and checks that its tensors share out the `data_size` bytes behind it, each byte to one tensor
/// and each tensor exactly what its shape takes. Anything else is an IoError naming `where`.
[[nodiscard]] SafeTensorsHeader parse_safetensors_header(std::string_view text, std::size_t data_size, const std::string& where);

}  // namespace gradus::io
