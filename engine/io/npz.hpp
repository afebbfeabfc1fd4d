#pragma once
// NumPy's archives of arrays: zip files with one npy file a name.

#include <map>
#include <string>

#include "engine/tensor/tensor.hpp"

namespace gradus::io {

/// The arrays of an npz file by name (without ".npy"), stored or compressed. Everything that list_zip, unpack or parse_npy
/// refuses, and a member that is no array, is an IoError that names the file and the member.
[[nodiscard]] std::map<std::string, Tensor> read_npz(const std::string& path);

/// Writes tensors, made contiguous, as an npz file without compression, whole or not at all; an existing file is replaced
/// only with `force`. Equal tensors give equal bytes.
void write_npz(const std::string& path, const std::map<std::string, Tensor>& tensors, bool force = false);

}  // namespace gradus::io
