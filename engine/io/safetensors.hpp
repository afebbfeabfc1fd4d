#pragma once
// Safetensors, the files in which models are exchanged: https://huggingface.co/docs/safetensors

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tensor/tensor.hpp"

namespace gradus::io {

/// Tensors in the order of the header, and the free text kept with them.
struct SafeTensors {
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads a file. F32, F64, I64 and BOOL keep their type, F16 and BF16 become f32, and I8 to I32 and U8 to U32 become i64; U64 and
/// the 8-bit floats are IoErrors. So are damage of any kind, found before memory is asked for: bytes of no or of two tensors,
/// sizes that do not fit their shapes, repeated or unknown fields, more than 8 axes, bad UTF-8, a header above 100 MB.
[[nodiscard]] SafeTensors read_safetensors(const std::string& path);
/// The same from bytes in memory; `where` names them in errors.
[[nodiscard]] SafeTensors parse_safetensors(std::string_view bytes, const std::string& where);

/// Writes tensors, made contiguous, whole or not at all; an existing file is replaced only with `force`. Equal input gives equal
/// bytes. Names must be unique and, like the metadata, valid UTF-8; otherwise ValueError.
void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata = {}, bool force = false);

}  // namespace gradus::io
